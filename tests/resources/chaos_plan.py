"""What happens to each chain of a run of chaos, drawn from a seed."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.resources.chaos_kinds import Cell, Fault, Room, Worker

from agentfly import Limits
from agentfly.types import StopReason

MOMENTS = (0.05, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Seconds after which waits and chains end. They are few, so that many end in one moment."""
PATIENT_SECONDS = 3000.0
HANG_SECONDS = 0.4
"""The whole time of a chain whose environment will hang."""
COMBINATIONS: dict[tuple[type, ...], int] = {
    (Room,): 42,
    (Cell,): 15,
    (Room, Cell): 20,
    (Cell, Room): 13,
    (Worker,): 4,
    (Room, Worker): 3,
    (Worker, Cell, Room): 3,
}
"""What a chain needs, the one that speaks first, and how often."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What will happen to one chain."""

    number: int
    kinds: tuple[type, ...]
    fault: Fault
    lease_seconds: float
    cancelled_after: float | None

    @property
    def id(self) -> str:
        return f"t{self.number}"

    @property
    def limits(self) -> Limits:
        hangs = self.fault.what == "hang" and self.fault.when != "close"
        seconds = HANG_SECONDS if hangs else PATIENT_SECONDS
        return Limits(seconds=seconds, lease_seconds=self.lease_seconds)

    @property
    def ends(self) -> set[StopReason]:
        """For which reasons it may end."""
        may_end = {self._own_end}
        if self._own_end is StopReason.TIME_LIMIT:
            may_end.add(StopReason.ENV_CRASHED)  # Where the hung call is the reset.
        if self.lease_seconds < PATIENT_SECONDS:
            may_end.add(StopReason.LEASE_TIMEOUT)
        if self.cancelled_after is not None:
            may_end.add(StopReason.CANCELLED)
        return may_end

    @property
    def _own_end(self) -> StopReason:
        if self.fault.what in ("", "slow") or self.fault.when == "close":
            return StopReason.ENV_ENDED
        if self.fault.what == "hang":
            return StopReason.TIME_LIMIT
        is_shown = self.fault.kind == "Cell" and self.fault.when == "step"
        return StopReason.ENV_ENDED if is_shown else StopReason.ENV_CRASHED


def make_plans(seed: int, chains: int) -> Iterator[Plan]:
    """Draw the chains of a run; a fifth of them meets a fault."""
    rng = random.Random(seed)
    for number in range(chains):
        (kinds,) = rng.choices(list(COMBINATIONS), list(COMBINATIONS.values()))
        yield Plan(
            number=number,
            kinds=kinds,
            fault=_fault(rng, kinds) if rng.random() < 0.2 else Fault(),
            lease_seconds=rng.choice(MOMENTS) if rng.random() < 0.75 else PATIENT_SECONDS,
            cancelled_after=rng.choice(MOMENTS) if rng.random() < 0.1 else None,
        )


def _fault(rng: random.Random, kinds: Sequence[type]) -> Fault:
    place = rng.randrange(len(kinds))
    # Only what speaks first is called again after its reset.
    when = rng.choice(("reset", "step", "close") if place == 0 else ("reset", "close"))
    what = rng.choice(("crash", "hang", "slow") if when == "close" else ("crash", "crash", "hang"))
    seconds = rng.choice((0.1, 0.3, 1.5)) if what == "slow" else 0.0
    return Fault(what=what, kind=kinds[place].__name__, when=when, seconds=seconds)
