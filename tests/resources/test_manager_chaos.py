"""A run over environments that crash, hang, leak and talk rubbish, in real worker processes."""

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.resources.chaos_environments import Chaotic, manager, run_chains
from tests.resources.pool_environments import soon, until

from agentfly.resources import EnvironmentManager
from agentfly.runtime.launch import start_time
from agentfly.runtime.process import reap
from agentfly.runtime.process_registry import FOLDER_VARIABLE, Identity, Record, records
from agentfly.types import EnvSpec, StopReason, Trajectory

ROOT = Path(__file__).parents[2]
CHAOTIC = EnvSpec(Chaotic)


@pytest.fixture(autouse=True)
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "registry"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    yield folder
    reap()
    assert records() == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_chains_end_and_the_pool_is_whole_again() -> None:
    asyncio.run(run_and_look(chains=1000, instances=32))
    assert records() == [], "no process is left"


async def run_and_look(chains: int, instances: int) -> None:
    ended: list[Trajectory] = []
    async with manager(instances) as pool:
        async with asyncio.timeout(PATIENCE + chains / 2):
            await run_chains(pool, chains, cancelled=0.1, ended=ended)
        stops = Counter(trajectory.stop for trajectory in ended)
        assert chains * 0.7 < len(ended) < chains, "some were cancelled"
        assert set(stops) <= {StopReason.ENV_ENDED, StopReason.ENV_CRASHED}, ended
        for trajectory in ended:
            if trajectory.stop is StopReason.ENV_ENDED:
                assert trajectory.score is not None, trajectory.error
                assert trajectory.score.value == 1.0, trajectory.metadata
        await until(lambda: is_quiet(pool))
        (state,) = pool.snapshot().stocks
        assert (state.leased, state.waiting) == (0, 0)
        assert state.crashed > 0
        assert state.recycled > 0
        assert len(records()) == state.warm <= instances
        await all_of_the_pool_can_be_had(pool, instances)


def is_quiet(pool: EnvironmentManager) -> bool:
    (state,) = pool.snapshot().stocks
    return state.making == state.ending == 0


async def all_of_the_pool_can_be_had(pool: EnvironmentManager, size: int) -> None:
    everyone = asyncio.Barrier(size)

    async def hold() -> None:
        async with pool.lease([CHAOTIC], owner="x", deadline=soon(90)):
            await everyone.wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(size):
            group.create_task(hold())


def eventually(holds: Callable[[], object], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def chaotic_run(report: Path, folder: Path, *sizes: int) -> "subprocess.Popen[bytes]":
    env = {**os.environ, "PYTHONPATH": str(ROOT), FOLDER_VARIABLE: str(folder)}
    command = [sys.executable, "-m", "tests.resources.chaos_environments", report, *sizes]
    return subprocess.Popen(
        [str(part) for part in command], env=env, cwd=ROOT, stderr=subprocess.DEVNULL
    )


def progress(report: Path) -> int:
    text = report.read_text() if report.exists() else ""
    return int(text or 0)


def living(of: int) -> list[Record]:
    return [record for record in records() if record.owner.pid == of and record.child]


@pytest.mark.parametrize(
    ("chains", "instances"),
    [(6, 2), pytest.param(1000, 32, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_after_kill_9_the_next_start_reaps_all_and_only_that(
    tmp_path: Path, registry: Path, chains: int, instances: int
) -> None:
    """Two runs live at once; one is killed, and a stranger has the pid of one of its workers."""
    reports = tmp_path / "doomed", tmp_path / "other"
    # Neither may end by itself.
    doomed, other = (chaotic_run(report, registry, 10 * chains, instances) for report in reports)
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        assert eventually(
            lambda: progress(reports[0]) >= chains // 2, seconds=PATIENCE + chains / 2
        )
        assert doomed.poll() is None, "it is killed half-way"
        assert eventually(lambda: living(other.pid))
        doomed.kill()
        doomed.wait()
        left = living(doomed.pid)
        assert left
        forged = _recycle_pid(left[0], stranger.pid)
        with chaotic_run(tmp_path / "next", registry, 1, 1) as next_start:
            assert next_start.wait() == 0
        assert not forged.exists()
        assert living(doomed.pid) == []
        for record in left:
            assert record.child
            assert not record.child.alive
        assert stranger.poll() is None, "it only has a pid that a worker once had"
        before = progress(reports[1])
        assert eventually(lambda: progress(reports[1]) != before or other.poll() is not None)
        assert other.poll() is None, "the other run goes on"
    finally:
        for process in (doomed, other, stranger):
            process.kill()
            process.wait()
    assert eventually(lambda: not [r for r in living(other.pid) if r.child and r.child.alive])


def _recycle_pid(record: Record, pid: int) -> Path:
    """Write a record of a dead worker whose pid now is a stranger's."""
    start = start_time(pid)
    assert start
    identity = Identity(pid=pid, start=start - 1)
    path = record.path.with_name(f"{record.path.name}00")
    first = record.path.read_text().splitlines(keepends=True)[0]
    path.write_text(f"{first}{identity.pid} {identity.start}\n")
    return path
