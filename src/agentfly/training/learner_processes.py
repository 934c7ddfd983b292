"""The learner's processes: started here, by torchrun or by anything else, watched and ended.

    agentfly train run.toml learner.processes=2         this process starts the other one
    torchrun --nproc-per-node 2 -m agentfly.cli train run.toml

Rank 0 runs the loop, with its engines and environments. Every other rank is `serve_learner`, which
needs nothing but its place: the settings come from rank 0.
"""

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import torch

from agentfly.agents.run_parts import RunParts
from agentfly.config import RunSettings
from agentfly.errors import ConfigError, LearnerLostError, RunError
from agentfly.runtime.process import Child, start
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.peers import (
    LearnerRank,
    Terms,
    absent,
    joined,
    serve_store,
    torchrun_rank,
)
from agentfly.training.learner.policy import Policy, device_of
from agentfly.training.learner.sharded_learner import LOST, Setup, ShardedLearner, take_part
from agentfly.training.run_state import determinism

LIFETIME = 90 * 24 * 3600.0
"""Longest run, in seconds: a learner process is never older."""
WATCH_SECONDS = 0.2
"""Interval of checks whether all processes are there."""
CAUSE_SECONDS = 20.0
"""Longest wait for the notice of which process ended: that of a node's death takes seconds."""
ENTRY = f"from {__name__} import main; main()"
"""Program of a process that is started here. As a module it would be imported twice."""


class LearnerProcesses(Protocol):
    """The other processes of a learner, as far as rank 0 can watch them."""

    @property
    def logs(self) -> str:
        """Path of their logs, for error messages."""

    @property
    def first_gpu(self) -> int | None:
        """Number of the GPU that is kept for rank 0; None where it may take its own."""

    def ended(self) -> str | None:
        """Return which of them ended, and how; None while all of them run."""


class LearnerHosts(Protocol):
    """Machines on which the other processes of a learner can be started."""

    @property
    def host(self) -> str:
        """Address of this machine as the others reach it."""

    def start(
        self, count: int, address: str, log_folder: Path
    ) -> AbstractAsyncContextManager[LearnerProcesses]:
        """Start ranks 1, 2, … of `count`, each running `serve_learner`; end them with the block.

        Args:
            count: All processes, rank 0 included.
            address: Address of rank 0's store.
            log_folder: For what they print.
        """


@asynccontextmanager
async def open_learner(
    parts: RunParts, log_folder: Path, *, hosts: LearnerHosts | None = None
) -> AsyncIterator[LocalLearner | ShardedLearner]:
    """Make the learner of a run: here, or here and in other processes, which end with the block.

    Args:
        parts: Settings and algorithm.
        log_folder: For the logs of other processes.
        hosts: Where they are started; by default on this machine. A learner of one process keeps
            a GPU there.
    """
    settings, place = parts.settings, torchrun_rank()
    if place is None and not settings.learner.sharded:
        async with _own_gpu(hosts, log_folder):
            policy = Policy.load(settings.model, seed=settings.seed)
            yield LocalLearner(
                policy, parts.algorithm, settings, sampler_matches=policy.samples_exactly
            )
        return
    setup = Setup.of(settings, parts.algorithm, named=parts.algorithm_named)
    terms = Terms(settings=settings.learner, device=device_of(settings.model.device).type)
    async with AsyncExitStack() as stack:
        if place is not None:
            _require_count(place, settings)
            store, others = None, None
        else:
            where = hosts or ThisMachine()
            store = serve_store(where.host)
            count, address = settings.learner.processes, f"{where.host}:{store.port}"
            others = await stack.enter_async_context(where.start(count, address, log_folder))
            place = LearnerRank(
                rank=0, world_size=count, address=address, host=where.host, gpu=others.first_gpu
            )
            await _all_joined(store, count, others, settings.learner.timeout_seconds)
        peers = stack.enter_context(joined(place, terms, store=store))
        learner = ShardedLearner(setup, peers)
        stack.callback(learner.close)
        await stack.enter_async_context(_watched(learner, others))
        yield learner


@asynccontextmanager
async def _own_gpu(hosts: LearnerHosts | None, log_folder: Path) -> AsyncIterator[None]:
    """Keep a GPU for a learner of one process, so that no engine is placed on it."""
    if hosts is None:
        yield
        return
    async with hosts.start(1, "", log_folder) as kept:
        if kept.first_gpu is not None:
            torch.cuda.set_device(kept.first_gpu)
        yield


def _require_count(place: LearnerRank, settings: RunSettings) -> None:
    if settings.learner.processes not in (1, place.world_size):
        raise ConfigError(
            f"learner.processes = {settings.learner.processes}, but torchrun started "
            f"{place.world_size} processes: leave the setting out, or make them equal"
        )


async def _all_joined(store: Any, count: int, others: LearnerProcesses, seconds: float) -> None:
    """Wait until every process is there, or one of them has ended before that."""
    try:
        async with asyncio.timeout(seconds):
            while absent(store, count):
                _require_running(others)
                await asyncio.sleep(WATCH_SECONDS)
    except TimeoutError as error:
        raise RunError(
            f"learner processes {absent(store, count)} did not join within {seconds:g} s "
            f"(learner.timeout_seconds): see {others.logs}"
        ) from error


def _require_running(others: LearnerProcesses) -> None:
    if ended := others.ended():
        raise RunError(f"{ended} before it joined the others: see {others.logs}")


@asynccontextmanager
async def _watched(learner: ShardedLearner, others: LearnerProcesses | None) -> AsyncIterator[None]:
    """Cancel the block, and raise why, as soon as one of the processes is lost."""
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(_watch(learner, others))
            try:
                yield
            finally:
                watching.cancel()
    except BaseExceptionGroup as errors:
        if not isinstance(learner.failure, LearnerLostError):
            raise errors.exceptions[0] from None
        # What else failed, such as a publish, failed because of it.
        raise await _with_cause(learner.failure, others) from None


async def _with_cause(lost: LearnerLostError, others: LearnerProcesses | None) -> LearnerLostError:
    """Return the loss with the process that ended, which is often noticed a little later."""
    if others is None:
        return lost
    for _ in range(round(CAUSE_SECONDS / WATCH_SECONDS)):
        if ended := others.ended():
            return LearnerLostError(f"{LOST}: {ended}, see {others.logs}")
        await asyncio.sleep(WATCH_SECONDS)
    return lost


async def _watch(learner: ShardedLearner, others: LearnerProcesses | None) -> None:
    while True:
        ended = others.ended() if others else None
        if others and ended:
            raise learner.note_lost(ended)
        if learner.failure is not None:
            raise learner.failure
        await asyncio.sleep(WATCH_SECONDS)


class ThisMachine:
    """Starts the other processes of a learner here; they talk by the loopback interface only."""

    host = "127.0.0.1"

    @asynccontextmanager
    async def start(
        self, count: int, address: str, log_folder: Path
    ) -> AsyncIterator["ChildProcesses"]:
        """Start ranks 1, 2, …; see `LearnerHosts`."""
        threads = str(max(1, (os.cpu_count() or 1) // count))
        environment = {"OMP_NUM_THREADS": threads, **os.environ}
        children: dict[int, Child] = {}
        async with AsyncExitStack() as stack:
            for rank in range(1, count):
                place = {"rank": rank, "world-size": count, "address": address, "host": self.host}
                options = [
                    text for key, value in place.items() for text in (f"--{key}", str(value))
                ]
                log = stack.enter_context((log_folder / f"learner_{rank}.log").open("ab"))
                child = await start(
                    [sys.executable, "-c", ENTRY, *options],
                    name=f"learner process {rank}",
                    lifetime=LIFETIME,
                    env=environment,
                    stdout=log,
                    stderr=log,
                )
                children[rank] = await stack.enter_async_context(child)
            yield ChildProcesses(children, log_folder)


class ChildProcesses:
    """Learner processes that were started here."""

    first_gpu = None

    def __init__(self, children: dict[int, Child], log_folder: Path) -> None:
        self.children = children
        self.logs = str(log_folder / "learner_N.log")

    def ended(self) -> str | None:
        """Return which of them ended, and how; None while all of them run."""
        for child in self.children.values():
            if child.returncode is not None:
                return f"{child.name} ended with code {child.returncode}"
        return None


def serve_learner(place: LearnerRank) -> None:
    """Take part in a learner as one of its other processes, until rank 0 closes it."""
    # Ctrl-C is for rank 0, which saves with all processes before it ends them.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with joined(place) as peers:
        take_part(peers, prepare=determinism)


def serve_place(**place: Any) -> None:
    """Take part in a learner, at the place that these keywords describe."""
    serve_learner(LearnerRank(**place))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one process."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--address", required=True, help="host:port of rank 0's store")
    parser.add_argument("--local-rank", type=int)
    parser.add_argument("--local-world-size", type=int)
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--host", help="address of this machine's interface to the others")
    serve_place(**vars(parser.parse_args(arguments)))
