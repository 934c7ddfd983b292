"""The state of a manager: who holds what and since when, as data, as text and as a file.

A process that reports (`reporting`) writes `environments.json` into its run's folder at once, and
again on every SIGUSR1. `ask` sends that signal to the very process that wrote the file, and reads
its answer.
"""

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from agentfly.errors import ConfigError, FormatError
from agentfly.resources.cluster_state import ClusterState
from agentfly.resources.pool import InstancePool, Lease
from agentfly.resources.queue import Waiter
from agentfly.runtime.process_registry import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """Numbers of instances of one kind by state, and of those that have ended."""

    environment: str
    where: str
    waiting: int
    leased: int
    warm: int
    making: int
    ending: int
    max_instances: int
    created: int
    recycled: int
    crashed: int
    lease_p50: float | None
    """Seconds that half of the last leases waited at the most; None without any."""
    lease_p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One lease, or one wait for it."""

    owner: str
    environments: tuple[str, ...]
    seconds: float
    """Time since it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a manager at one moment."""

    taken_at: float
    """Seconds since 1970."""
    pid: int
    started: int
    """With the pid, this names the process once and for all."""
    stocks: tuple[PoolState, ...] = ()
    """The pools; the name is that of the key in `environments.json`."""
    leases: tuple[Held, ...] = ()
    waits: tuple[Held, ...] = ()
    cluster: ClusterState | None = None
    """The cluster on which they live, if any."""

    @property
    def metrics(self) -> dict[str, float]:
        """Return the numbers by name, such as `env/Shop/leased`."""
        counted = ("waiting", "leased", "warm", "created", "recycled", "crashed")
        timed = ("lease_p50", "lease_p99")
        found = {
            f"env/{pool.environment}/{name}": getattr(pool, name)
            for pool in self.stocks
            for name in (*counted, *timed)
        }
        known = {name: float(value) for name, value in found.items() if value is not None}
        return known | (self.cluster.metrics if self.cluster else {})

    @property
    def text(self) -> str:
        """Show it to a person."""
        lines = [line for pool in self.stocks for line in _pool_lines(pool)]
        lines += [f"{'held by':>10} {_line(held)}" for held in self.leases]
        lines += [f"{'waiting':>10} {_line(wait)}" for wait in self.waits]
        cluster = self.cluster.lines() if self.cluster else ()
        return "\n".join([*(lines or ["no environments"]), *cluster])


def take_snapshot(
    pools: Collection[InstancePool] = (), queue: Iterable[Waiter] = (), now: float = 0.0
) -> Snapshot:
    """Describe all instances and waiters of one event loop, at the time `now` of its clock."""
    me = Identity.of(os.getpid())
    assert me is not None, "this process runs"
    waiters = sorted(queue, key=lambda waiter: waiter.place)
    leases = [lease for pool in pools for lease in pool.leases]
    return Snapshot(
        taken_at=time.time(),
        pid=me.pid,
        started=me.start,
        stocks=tuple(
            _state(pool, sum(pool.spec in waiter.specs for waiter in waiters)) for pool in pools
        ),
        leases=tuple(
            _held(lease.owner, [_located(lease)], now - lease.since)
            for lease in sorted(leases, key=lambda lease: lease.since)
        ),
        waits=tuple(
            _held(waiter.owner, sorted(spec.name for spec in waiter.specs), now - waiter.since)
            for waiter in waiters
        ),
    )


def _state(pool: InstancePool, waiting: int) -> PoolState:
    latencies = sorted(pool.latencies)
    return PoolState(
        environment=pool.spec.name,
        where=pool.pooling.where,
        waiting=waiting,
        leased=len(pool.leases),
        warm=len(pool.warm),
        making=pool.making,
        ending=pool.ending + pool.checking,
        max_instances=pool.pooling.max_instances,
        created=pool.created,
        recycled=pool.recycled,
        crashed=pool.crashed,
        lease_p50=_percentile(latencies, 50),
        lease_p99=_percentile(latencies, 99),
    )


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """Return the smallest value that so many percent don't exceed.

    >>> _percentile([1.0, 2.0, 3.0, 4.0], 50), _percentile([1.0, 2.0], 99)
    (2.0, 2.0)
    """
    return values[-(-len(values) * percent // 100) - 1] if values else None


def _held(owner: str, environments: Sequence[str], seconds: float) -> Held:
    return Held(owner=owner, environments=tuple(environments), seconds=seconds)


def _located(lease: Lease) -> str:
    """Name what is leased, and the node on which it lives if that is another."""
    node: str | None = getattr(lease.member.instance, "node", None)
    return lease.pool.spec.name if node is None else f"{lease.pool.spec.name} on {node}"


def _pool_lines(pool: PoolState) -> Iterator[str]:
    yield (
        f"{pool.environment} ({pool.where}): {pool.leased} leased, {pool.warm} warm, "
        f"{pool.waiting} waiting, {pool.making} being made, {pool.ending} ending, "
        f"of at most {pool.max_instances}"
    )
    times = "no lease yet"
    if pool.lease_p50 is not None and pool.lease_p99 is not None:
        times = f"a lease takes {pool.lease_p50:.3g} s (p50), {pool.lease_p99:.3g} s (p99)"
    made = f"{pool.created} created, {pool.recycled} recycled, {pool.crashed} crashed"
    yield f"{'':10} {made}; {times}"


def _line(held: Held) -> str:
    return f"{held.owner} for {held.seconds:.1f} s: {', '.join(held.environments)}"


FILE = "environments.json"
ASK_SECONDS = 5.0
"""A live process that has not answered by then does not get to its signals: it hangs in C."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A snapshot, and whether its process can be asked for another."""

    v: Literal[1]
    """Version of the file."""
    answers: bool
    """Whether SIGUSR1 brings another report; a process without a handler is killed by it."""
    ended: bool
    """Whether this is the last report."""
    snapshot: Snapshot

    @property
    def text(self) -> str:
        """Show it to a person, with how old it is."""
        standing = "has ended" if self.ended else "answers" if self.answers else "does not answer"
        age = max(0.0, time.time() - self.snapshot.taken_at)
        head = f"the run of process {self.snapshot.pid} {standing}; its state {age:.0f} s ago:"
        return f"{head}\n{self.snapshot.text}"

    def write(self, folder: Path) -> Path:
        """Write it into a folder, whole or not at all."""
        path = folder / FILE
        # A name of its own: a signal may interrupt one writing by another.
        draft = path.with_name(f".{FILE}.{secrets.token_hex(4)}")
        try:
            draft.write_bytes(_ON_DISK.dump_json(self, indent=1) + b"\n")
            return draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    @classmethod
    def read(cls, folder: Path) -> "Report":
        """Read what was last written into a folder."""
        path = folder / FILE
        try:
            return _ON_DISK.validate_json(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError) as error:
            if not folder.is_dir():
                raise ConfigError(
                    f"there is no folder {str(folder)!r}: name the folder of a run, such as "
                    "runs/sums"
                ) from error
            raise ConfigError(
                f"{folder} has no {FILE}: is it the folder of a run that uses environments?"
            ) from error
        except ValidationError as error:
            raise FormatError(
                f"{path} is not a report of version 1: {_first_fault(error)}. "
                "Read it with the version of agentfly that wrote it"
            ) from error


_ON_DISK = TypeAdapter(Report)


@contextmanager
def reporting(take: Callable[[], Snapshot], folder: Path) -> Iterator[None]:
    """Write a report now, on every SIGUSR1 and at the end.

    Outside the main thread, where Python handles no signals, only the first and the last.
    """
    answers = threading.current_thread() is threading.main_thread()

    def report(*, ended: bool = False) -> Report:
        return Report(v=1, answers=answers and not ended, ended=ended, snapshot=take())

    def on_signal(*_: object) -> None:
        _write_or_log(report(), folder)

    try:
        with _handling_signal(on_signal) if answers else nullcontext():
            report().write(folder)
            yield
    finally:
        _write_or_log(report(ended=True), folder)


def ask(folder: Path) -> Report:
    """Ask the process that reports into this folder; its last report, if it does not answer."""
    last = Report.read(folder)
    process = Identity(pid=last.snapshot.pid, start=last.snapshot.started)
    if not process.alive:
        return replace(last, answers=False, ended=True)
    return _answer(last, process, folder) if last.answers else last


def _answer(last: Report, process: Identity, folder: Path) -> Report:
    with suppress(ProcessLookupError, PermissionError):  # It has just ended, or is another user's.
        os.kill(process.pid, signal.SIGUSR1)
    give_up_at = time.monotonic() + ASK_SECONDS
    while process.alive and time.monotonic() < give_up_at:
        answer = Report.read(folder)
        if answer.snapshot.taken_at != last.snapshot.taken_at:
            return answer
        time.sleep(0.02)
    last = Report.read(folder)
    return replace(last, answers=False, ended=last.ended or not process.alive)


@contextmanager
def _handling_signal(on_signal: Callable[..., None]) -> Iterator[None]:
    """Handle SIGUSR1, and afterwards ignore it unless it was handled before.

    Without a handler, a request at the very moment of the end would kill this process.
    """
    # Not the event loop's own way: a loop that hangs is what one wants to look into.
    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before if callable(before) else _ignore_signal)


def _ignore_signal(*_: object) -> None:
    """Do nothing. Unlike SIG_IGN, this is not inherited by the programs that are started."""


def _write_or_log(report: Report, folder: Path) -> None:
    """Write it if that can be done: neither a signal nor the end of a run may fail by it."""
    try:
        report.write(folder)
    except OSError as error:
        _log.warning("%s can't be written: %s", folder / FILE, error)


def _first_fault(error: ValidationError) -> str:
    """Return what is wrong where: `v: Field required`."""
    fault = error.errors(include_url=False)[0]
    return ": ".join([*(str(part) for part in fault["loc"]), fault["msg"]])
