"""Who holds what and since when: asked within the process, and from another one."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.resources.pool_environments import Box, Crate, soon

from agentfly.errors import ConfigError
from agentfly.resources import EnvironmentManager, Pooling, Snapshot, ask, reporting
from agentfly.testing import run_in_virtual_time
from agentfly.types import EnvSpec

BOX, CRATE = EnvSpec(Box), EnvSpec(Crate)


def test_a_snapshot_says_who_holds_what_and_since_when() -> None:
    async def main() -> Snapshot:
        table = {Box: Pooling(max_instances=1, max_uses=9), Crate: Pooling(max_uses=9)}
        async with EnvironmentManager(table) as pool:
            async with pool.lease([BOX], owner="a", deadline=soon()):
                await asyncio.sleep(10)

            async def wait() -> None:
                async with pool.lease([BOX, CRATE], owner="c", deadline=soon()):
                    pass

            async with (
                asyncio.TaskGroup() as group,
                pool.lease([BOX], owner="b", deadline=soon()),
            ):
                await asyncio.sleep(3)
                group.create_task(wait())
                await asyncio.sleep(4)
                return pool.snapshot()

    snapshot = run_in_virtual_time(main())
    assert snapshot.text == textwrap.dedent(
        """\
        Box (here): 1 leased, 0 warm, 1 waiting, 0 being made, 0 ending, of at most 1
                   1 created, 1 recycled, 0 crashed; a lease takes 0 s (p50), 0 s (p99)
        Crate (here): 0 leased, 1 warm, 1 waiting, 0 being made, 0 ending, of at most 256
                   1 created, 0 recycled, 0 crashed; no lease yet
           held by b for 7.0 s: Box
           waiting c for 4.0 s: Box, Crate"""
    )
    assert snapshot.metrics["env/Box/leased"] == 1.0
    assert snapshot.metrics["env/Box/lease_p99"] == 0.0
    assert "env/Crate/lease_p99" not in snapshot.metrics


def test_latency_is_the_time_in_line() -> None:
    async def main() -> Snapshot:
        async with EnvironmentManager({Box: Pooling(max_instances=1, max_uses=999)}) as pool:

            async def chain() -> None:
                async with pool.lease([BOX], owner="x", deadline=soon(1e4)):
                    await asyncio.sleep(1)

            async with asyncio.TaskGroup() as group:
                for _ in range(100):
                    group.create_task(chain())
            return pool.snapshot()

    (state,) = run_in_virtual_time(main()).stocks
    assert (round(state.lease_p50 or 0), round(state.lease_p99 or 0)) == (49, 98)


async def test_a_snapshot_survives_its_file(tmp_path: Path) -> None:
    async with EnvironmentManager() as pool:
        assert pool.snapshot().text == "no environments"
        async with pool.lease([BOX, CRATE], owner="a", deadline=soon()):
            snapshot = pool.snapshot()
            snapshot.write(tmp_path)
    assert Snapshot.read(tmp_path) == snapshot
    with pytest.raises(ConfigError, match=r"has no environments\.json"):
        Snapshot.read(tmp_path / "elsewhere")


LIVE = """
import asyncio, sys, time
from pathlib import Path
from agentfly.resources import EnvironmentManager, reporting
from agentfly.runtime.clock import LoopClock
from agentfly.types import EnvSpec
from tests.resources.pool_environments import Box, soon

async def main():
    async with EnvironmentManager() as pool:
        with reporting(pool.snapshot, Path(sys.argv[1])):
            async with pool.lease([EnvSpec(Box)], owner="t/0/7", deadline=soon()):
                print("holding", flush=True)
                if sys.argv[2] == "stuck":
                    while True:  # The event loop never gets to run again.
                        time.sleep(0.01)
                await asyncio.sleep(1000)

asyncio.run(main())
"""


@pytest.mark.parametrize("state", ["running", "stuck"])
def test_another_process_can_ask(tmp_path: Path, state: str) -> None:
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", LIVE, str(tmp_path), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "holding\n"
            assert Snapshot.read(tmp_path).leases == (), "written at the start"
            (held,) = ask(tmp_path).leases
            assert (held.owner, held.environments) == ("t/0/7", ("Box",))
        finally:
            process.kill()
    assert ask(tmp_path).pid == process.pid, "the dead are not signalled"


async def test_reporting_leaves_the_signal_as_it_was(tmp_path: Path) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))
    try:
        async with EnvironmentManager() as pool:
            with reporting(pool.snapshot, tmp_path):
                os.kill(os.getpid(), signal.SIGUSR1)
                await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [signal.SIGUSR1]
