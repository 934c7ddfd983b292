"""Who holds what and since when: asked within the process, and from another one."""

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.resources.pool_environments import Box, Crate, soon

from agentfly.errors import ConfigError
from agentfly.resources import EnvironmentManager, Pooling, Report, Snapshot, ask, reporting
from agentfly.runtime.process_registry import Identity
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


async def test_a_report_survives_its_file(tmp_path: Path) -> None:
    async with EnvironmentManager() as pool:
        assert pool.snapshot().text == "no environments"
        async with pool.lease([BOX, CRATE], owner="a", deadline=soon()):
            report = Report(v=1, answers=True, ended=False, snapshot=pool.snapshot())
            report.write(tmp_path)
    assert Report.read(tmp_path) == report
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"has no environments\.json"):
        Report.read(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"there is no folder '.*elsewhere'"):
        Report.read(tmp_path / "elsewhere")


@pytest.mark.parametrize(
    ("change", "fault"),
    [({"v": 2}, "v: Input should be 1"), ({"answers": None}, "answers: "), ({"snapshot": {}}, "s")],
)
async def test_a_file_of_another_version_is_reported_plainly(
    tmp_path: Path, change: dict[str, Any], fault: str
) -> None:
    async with EnvironmentManager() as pool:
        with reporting(pool.snapshot, tmp_path):
            pass
    path = tmp_path / "environments.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match=f"is not a report of version 1: {fault}"):
        ask(tmp_path)
    path.write_text('{"taken_at": 1.0, "pid"')
    with pytest.raises(ConfigError, match="is not a report of version 1: Invalid JSON"):
        ask(tmp_path)


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


@contextmanager
def another_process(program: str, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a program, and wait until it has said `holding`."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("state", ["running", "stuck"])
def test_another_process_can_ask(tmp_path: Path, state: str) -> None:
    with another_process(LIVE, str(tmp_path), state) as process:
        assert Report.read(tmp_path).snapshot.leases == (), "written at the start"
        answer = ask(tmp_path)
        (held,) = answer.snapshot.leases
        assert (held.owner, held.environments) == ("t/0/7", ("Box",))
        assert answer.text.startswith(f"the run of process {process.pid} answers; its state 0 s")
    assert [path.name for path in tmp_path.iterdir()] == ["environments.json"], "no draft"
    last = ask(tmp_path)
    assert (last.answers, last.ended) == (False, True), "the dead are not signaled"
    assert last.text.startswith(f"the run of process {process.pid} has ended; its state ")


DEAF = """
import asyncio, sys, threading
from pathlib import Path
from agentfly.resources import EnvironmentManager, reporting

async def main():
    async with EnvironmentManager() as pool:
        with reporting(pool.snapshot, Path(sys.argv[1])):
            if sys.argv[2] == "in a thread":
                hold()
    hold()

def hold():
    print("holding", flush=True)
    threading.Event().wait()

run = threading.Thread(target=asyncio.run, args=[main()])
run.start() if sys.argv[2] == "in a thread" else run.run()
"""


@pytest.mark.parametrize(
    ("state", "said"), [("in a thread", "does not answer"), ("at its end", "has ended")]
)
def test_a_process_that_hears_no_signal_survives_being_asked(
    tmp_path: Path, state: str, said: str
) -> None:
    with another_process(DEAF, str(tmp_path), state) as process:
        report = ask(tmp_path)
        assert report.text.startswith(f"the run of process {process.pid} {said}; its state ")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)


def test_who_asks_in_the_moment_of_the_end_kills_nobody(tmp_path: Path) -> None:
    with another_process(DEAF, str(tmp_path), "at its end") as process:
        process.send_signal(signal.SIGUSR1)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)


STUCK = """
import signal, time
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
print("holding", flush=True)
time.sleep(1000)
"""


def test_a_process_that_does_not_get_to_its_signals_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfly.resources.snapshot.ASK_SECONDS", 0.1)
    with another_process(STUCK) as process:
        stuck = Identity.of(process.pid)
        assert stuck
        old = Snapshot(taken_at=time.time() - 3600, pid=stuck.pid, started=stuck.start)
        Report(v=1, answers=True, ended=False, snapshot=old).write(tmp_path)
        report = ask(tmp_path)
    assert (report.answers, report.ended) == (False, False)
    assert re.search(rf"process {stuck.pid} does not answer; its state 36\d\d s ago", report.text)


async def test_a_full_disk_harms_neither_the_signal_nor_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with EnvironmentManager() as pool:
        with caplog.at_level(logging.WARNING), reporting(pool.snapshot, tmp_path):
            monkeypatch.setattr(Path, "write_bytes", full)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.sleep(0)
    assert caplog.text.count("No space left on device") == 2


async def test_a_run_that_fails_has_ended_too(tmp_path: Path) -> None:
    async with EnvironmentManager() as pool:
        with pytest.raises(KeyError), reporting(pool.snapshot, tmp_path):
            raise KeyError
    assert ask(tmp_path).ended


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
