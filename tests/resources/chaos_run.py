"""A crowd of chains over few environments, of which many crash, hang or close slowly.

    python -m tests.resources.chaos_run SEED CHAINS

ends with code 0 if every chain ended once and for a reason that fits it, all instances came back,
and nothing is left of the run. It is a program of its own, so that all it leaves is its own.
"""

import asyncio
import ctypes
import logging
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.resources.chaos_kinds import KINDS, LAST_WORD, Room
from tests.resources.chaos_plan import Plan, make_plans

from agentfly import Agent, Limits, ScriptedEngine, Trajectory
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.resources import EnvironmentManager
from agentfly.runtime.background import run_blocking
from agentfly.runtime.launch import read_stat
from agentfly.runtime.process_registry import records
from agentfly.runtime.threads import shared_threads
from agentfly.sandbox.levels import warm_servers
from agentfly.types import Context, EnvSpec, Event, Score, Stopped, StopReason

MEMORY_MB = 600
"""All eight instances would take 1,100."""
UNDER_WAY = 80
"""Chains at once: so many more than instances that a wait takes about as long as it may."""
BUSY_SECONDS, FREE_SECONDS = 0.05, 0.15
"""How long the event loop is kept from its work, and how long not. After each pause it finds at
once what happened meanwhile, so that waits end in the very moment in which instances come back."""
STALL_SECONDS = 100.0
"""If no chain ends in this time, they wait for each other."""
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl: whoever loses its parent becomes a child of this process."""


@dataclass(frozen=True)
class OwnMarks:
    """Says whether the environment heard this chain and no other."""

    environments: tuple[EnvSpec, ...]
    name: str = "own marks"

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        heard = [message.content for message in trajectory.conversation if message.role == "user"]
        own = f"{context.task.id} hello {LAST_WORD}"
        return Score(value=float(heard[-1] == own))


@dataclass
class Run:
    """A run, and what was seen of it."""

    pool: EnvironmentManager
    stops: dict[str, list[StopReason]] = field(default_factory=dict)
    """Why each chain ended; one reason each, if all is well."""
    scores: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """What was raised into a chain or a task that had nothing to do with it."""
    _agents: dict[tuple[tuple[type, ...], Limits], Agent] = field(default_factory=dict)

    async def run(self, plans: Sequence[Plan]) -> None:
        """Run all chains; raise TimeoutError if they come to a standstill."""
        waiting = iter(plans)
        async with asyncio.TaskGroup() as group:
            crowd = [group.create_task(self._run_some(waiting)) for _ in range(UNDER_WAY)]
            group.create_task(self._watch(crowd))
            group.create_task(_keep_busy(crowd))

    async def _run_some(self, plans: Iterator[Plan]) -> None:
        for plan in plans:
            try:
                async with asyncio.timeout(plan.cancelled_after):
                    row = {"id": plan.id, "fault": asdict(plan.fault)}
                    await self._agent(plan).run(
                        row,
                        seed=plan.number,
                        retries=0,
                        on_event=self._note_stop,
                        on_trajectory=self._note_score,
                    )
            except TimeoutError:
                continue

    async def _watch(self, crowd: Sequence["asyncio.Task[None]"]) -> None:
        ended, since = -1, time.monotonic()
        while not all(task.done() for task in crowd):
            if len(self.stops) > ended:
                ended, since = len(self.stops), time.monotonic()
            if time.monotonic() - since > STALL_SECONDS:
                raise TimeoutError(f"no chain has ended for {STALL_SECONDS:g} s")
            await asyncio.wait(crowd, timeout=0.5)

    def _agent(self, plan: Plan) -> Agent:
        key = plan.kinds, plan.limits
        if key not in self._agents:
            self._agents[key] = Agent(
                ScriptedEngine(["hello", LAST_WORD], tokenizer=ByteTokenizer(CHATML_TOKENS)),
                environment=plan.kinds[0],
                reward=OwnMarks(tuple(EnvSpec(kind) for kind in plan.kinds)),
                pool=self.pool,
                limits=plan.limits,
            )
        return self._agents[key]

    def _note_stop(self, event: Event) -> None:
        if isinstance(event, Stopped):
            self.stops.setdefault(event.chain_id.split("/")[0], []).append(event.stop)

    def _note_score(self, trajectory: Trajectory) -> None:
        if trajectory.score is not None:
            self.scores[trajectory.task.id] = trajectory.score.value

    def faults(self, plans: Sequence[Plan]) -> Iterator[str]:
        """Say what else was raised, and which chains did not end as they should."""
        yield from self.errors
        for plan in plans:
            stops = self.stops.get(plan.id, [])
            if len(stops) != 1 or not plan.ends.issuperset(stops):
                yield f"{plan} ended by {stops}, not by one of {plan.ends}"
            elif stops == [StopReason.ENV_ENDED] and self.scores.get(plan.id) != 1.0:
                yield f"{plan} shared its environment"


async def _keep_busy(crowd: Sequence["asyncio.Task[None]"]) -> None:
    while not all(task.done() for task in crowd):
        time.sleep(BUSY_SECONDS)  # noqa: ASYNC251 - meant
        await asyncio.sleep(FREE_SECONDS)


async def chaos(plans: Sequence[Plan]) -> Iterator[str]:
    """Run, and say what went wrong with the chains or the instances."""
    async with EnvironmentManager(memory_mb=MEMORY_MB) as pool:
        run = Run(pool)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: run.errors.append(f"{what}"))
        try:
            await run.run(plans)
            print(Counter(stop for stops in run.stops.values() for stop in stops))
            async with asyncio.timeout(STALL_SECONDS):
                await _all_come_back(pool)
        except (ExceptionGroup, TimeoutError) as error:
            run.errors.append(f"{error!r} {getattr(error, 'exceptions', '')} {pool.snapshot()}")
        print(pool.snapshot())
    return run.faults(plans)


async def _all_come_back(pool: EnvironmentManager) -> None:
    """Lease all instances of each kind at once."""
    for kind in KINDS:
        everyone = asyncio.Barrier(kind.pooling.max_instances)

        async def hold(kind: type = kind, everyone: asyncio.Barrier = everyone) -> None:
            deadline = asyncio.get_running_loop().time() + STALL_SECONDS
            async with pool.lease([EnvSpec(kind)], owner="all", deadline=deadline):
                await everyone.wait()

        async with asyncio.TaskGroup() as group:
            for _ in range(kind.pooling.max_instances):
                group.create_task(hold())


def main(seed: int, chains: int) -> None:
    """Run chaos, and exit with what it did wrong and left behind."""
    logging.getLogger("agentfly").setLevel(logging.CRITICAL)  # Failures are meant.
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    plans = list(make_plans(seed, chains))
    run_blocking(asyncio.sleep(0))  # Its loop lives as long as the process.
    before, threads = _descriptors(), set(threading.enumerate())
    faults = list(asyncio.run(chaos(plans)))
    faults += _left_behind(plans, before, threads)
    if faults:
        sys.exit("\n".join([f"{len(faults)} faults:", *faults[:20]]))


def _left_behind(
    plans: Sequence[Plan], before: Counter[str], threads: set[threading.Thread]
) -> Iterator[str]:
    """Say what is left of the run, after all that hung was let go."""
    hangs = sum(plan.fault.what == "hang" and plan.fault.kind == "Room" for plan in plans)
    hung = shared_threads().abandoned
    if len(hung) > hangs:
        yield f"{len(hung)} threads hang, of {hangs} that were to: {Counter(hung)}"
    Room.end_of_hanging.set()
    warm_servers().close()
    leftovers: dict[str, Callable[[], Any]] = {
        "threads": lambda: [one.name for one in threading.enumerate() if one not in threads],
        "processes": _descendants,
        "records of processes": records,
        "temporary files": lambda: list(Path(tempfile.gettempdir()).iterdir()),
        "descriptors": lambda: list((_descriptors() - before).elements()),
    }
    deadline = time.monotonic() + STALL_SECONDS
    for name, look in leftovers.items():
        while (left := look()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            yield f"{len(left)} {name} are left: {left[:10]}"


def _descriptors() -> Counter[str]:
    """Count the open descriptors by what they are, such as `socket`."""
    kinds: Counter[str] = Counter()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # The one that listed the others.
            kinds[path.readlink().name.split(":")[0]] += 1
    return kinds


def _descendants() -> list[str]:
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        if stat := read_stat(int(path.name)):
            parents[int(path.name)] = int(stat[1])
    found = [os.getpid()]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return [f"{pid} {_command(pid)}" for pid in found[1:]]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:200]
    except OSError:
        return "(gone)"


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
