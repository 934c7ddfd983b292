"""Starting, talking to and closing child processes: all of them real."""

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE, until

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime import process
from agentfly.runtime.launch import TOKEN_VARIABLE, read_stat
from agentfly.runtime.process import DEVNULL, PIPE, Child, reap, start
from agentfly.runtime.process_registry import FOLDER_VARIABLE, Identity, records
from agentfly.runtime.threads import WorkerThreads

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.usefixtures("registry"),
]

SHELL = "/bin/sh"


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "registry"))
    return tmp_path / "registry"


async def shell(script: str, *, lifetime: float = 60.0) -> Child:
    command = [SHELL, "-c", script]
    return await start(command, name="a shell", lifetime=lifetime, stdin=PIPE, stdout=PIPE)


async def line_of(child: Child) -> str:
    assert child.stdout
    async with asyncio.timeout(PATIENCE):
        return (await child.stdout.readline()).decode().strip()


def open_pipes() -> set[str]:
    """Return the pipes of this process; others may close files of theirs at any time."""
    links = Path("/proc/self/fd").iterdir()
    return {target for link in links if (target := target_of(link)).startswith("pipe:")}


def target_of(link: Path) -> str:
    try:
        return str(link.readlink())
    except FileNotFoundError:  # It was closed since it was listed.
        return ""


async def ends(pid: int) -> bool:
    await until(lambda: Identity.of(pid) is None)
    return True


async def test_a_child_is_talked_to_over_pipes() -> None:
    child = await start(
        [SHELL, "-c", "read x; echo got $x; echo oops >&2; exit 3"],
        name="a shell",
        lifetime=60.0,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
    )
    async with child:
        assert child.stdin
        assert child.stderr
        child.stdin.write(b"this\n")
        await child.stdin.drain()
        assert await line_of(child) == "got this"
        assert await child.stderr.read() == b"oops\n"
        assert await child.wait() == 3
        assert child.returncode == 3
    assert child.returncode == 3


async def test_a_long_line_can_be_read() -> None:
    command = [sys.executable, "-c", "print('x' * 1_000_000)"]
    async with await start(command, name="chatty", lifetime=60.0, stdout=PIPE) as child:
        assert len(await line_of(child)) == 1_000_000


async def test_it_is_on_record_while_it_runs() -> None:
    async with await shell("read x") as child:
        [record] = records()
        assert record.child == Identity.of(child.pid)
        assert record.owner == Identity.of(os.getpid())
        assert record.name == "a shell"
        assert 0 < record.deadline - time.time() <= 60.0
    assert records() == []
    assert Identity.of(child.pid) is None


async def test_it_has_a_session_of_its_own() -> None:
    async with await shell("read x") as child:
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid


async def test_its_environment_and_folder_are_as_given(tmp_path: Path) -> None:
    command = [SHELL, "-c", "pwd; exec /usr/bin/env"]
    env = {"A": "é\udcff"}
    child = await start(command, name="env", lifetime=60.0, env=env, cwd=tmp_path, stdout=PIPE)
    async with child:
        assert child.stdout
        said = os.fsdecode(await child.stdout.read()).splitlines()
    assert said[0] == str(tmp_path)
    ours = [line for line in said[1:] if not line.startswith(("PWD=", "SHLVL=", "_=", "OLDPWD="))]
    assert sorted(ours) == ["A=é\udcff", f"{TOKEN_VARIABLE}={ours[-1].partition('=')[2]}"]


async def test_the_environment_is_inherited_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLOR", "blue")
    async with await shell('echo "$COLOR"') as child:
        assert await line_of(child) == "blue"


async def test_a_broken_pipe_ends_it_as_usual() -> None:
    async with await shell("kill -PIPE $$; echo survived") as child:
        assert await child.wait() == -signal.SIGPIPE


@pytest.mark.parametrize(
    ("command", "cwd", "problem"),
    [
        (["no-such-program"], None, "it can't be started: no-such-program: .*No such file.*Is the"),
        (["/etc/passwd"], None, "it can't be started: /etc/passwd: .*Permission denied"),
        (["cat"], "/no/such/folder", "it can't be started: .*/no/such/folder"),
    ],
)
async def test_what_cannot_be_started_leaves_nothing(
    command: list[str], cwd: str | None, problem: str
) -> None:
    async def fail() -> None:
        with pytest.raises(ConfigError, match=problem):
            await start(command, name="it", lifetime=60.0, cwd=cwd, stdin=PIPE, stdout=PIPE)
        await asyncio.sleep(0)

    await fail()
    before = open_pipes()
    await fail()
    assert records() == []
    assert open_pipes() <= before


async def test_a_registry_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=f"Set {FOLDER_VARIABLE} to a folder"):
        await shell("true")


async def test_closing_lets_it_put_its_things_in_order(tmp_path: Path) -> None:
    script = (
        f"trap 'echo tidy > {tmp_path}/left; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    )
    async with await shell(script) as child:
        assert await line_of(child) == "ready"
    assert (tmp_path / "left").read_text() == "tidy\n"
    assert child.returncode == 0


async def test_closing_ends_one_that_ignores_sigterm() -> None:
    child = await shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    assert await line_of(child) == "ready"
    await child.close(grace=0.1)
    assert child.returncode == -signal.SIGKILL
    assert records() == []


async def test_closing_ends_grandchildren() -> None:
    async with await shell(
        "sleep 1000 & echo $!; (trap '' TERM; sleep 1000) & echo $!; wait"
    ) as child:
        grandchildren = [int(await line_of(child)), int(await line_of(child))]
        assert all(map(Identity.of, grandchildren))
    assert [await ends(pid) for pid in grandchildren] == [True, True]


async def test_closing_ends_grandchildren_that_outlived_the_child() -> None:
    async with await shell("sleep 1000 & echo $!") as child:
        grandchild = int(await line_of(child))
        assert await child.wait() == 0
        assert Identity.of(grandchild)
    assert await ends(grandchild)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_guarded_child_takes_its_group_with_it(number: signal.Signals) -> None:
    script = "sleep 1000 & echo $!; wait"
    child = await start(
        [SHELL, "-c", script], name="a shell", lifetime=60.0, guarded=True, stdout=PIPE
    )
    async with child:
        grandchild = int(await line_of(child))
        os.kill(child.pid, number)
        assert await ends(grandchild)
        assert child.stdout
        async with asyncio.timeout(PATIENCE):
            assert await child.stdout.read() == b"", "nothing has its output open any more"


async def test_a_guarded_child_is_closed_with_its_guard() -> None:
    child = await start(
        [SHELL, "-c", "echo; exec sleep 1000"],
        name="a shell",
        lifetime=60.0,
        guarded=True,
        stdout=PIPE,
    )
    await line_of(child)
    guards = living(child.pid) - {child.pid}
    assert len(guards) == 1
    await child.close()
    await until(lambda: not living(child.pid))


def living(group: int) -> set[int]:
    """Return the processes of a group."""
    numbers = {int(folder.name) for folder in Path("/proc").glob("[0-9]*")}
    return {pid for pid in numbers if (stat := read_stat(pid)) and int(stat[2]) == group}


async def test_closing_twice_or_at_once_does_nothing_more() -> None:
    child = await shell("read x")
    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(child.close())
    await child.close()
    assert records() == []


async def test_closing_gives_up_input_that_was_never_read() -> None:
    before = open_pipes()
    async with await shell("echo ready; exec sleep 1000") as child:
        assert await line_of(child) == "ready"
        assert child.stdin
        child.stdin.write(b"x" * 1_000_000)
        assert open_pipes() - before
    await until(lambda: open_pipes() <= before)


async def test_a_cancelled_close_still_comes_to_its_end() -> None:
    child = await shell("trap '' TERM; echo ready; while :; do sleep 0.01; done")
    assert await line_of(child) == "ready"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await child.close(grace=0.3)
    assert Identity.of(child.pid), "it is still in its grace"
    assert await ends(child.pid)
    await child.close()
    assert records() == []


async def test_a_close_that_is_cancelled_in_line_still_comes_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closers, hold, held = WorkerThreads(size=1), threading.Event(), threading.Event()
    monkeypatch.setattr(process, "_closers", lambda: closers)

    def occupy() -> None:
        held.set()
        hold.wait(60)

    child = await shell("read x")
    async with asyncio.TaskGroup() as group:
        group.create_task(closers.run(occupy, name="another child's close"))
        assert await asyncio.to_thread(held.wait, 20)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await child.close(grace=0)
        await until(lambda: records() == [])  # though the line has not moved
        assert Identity.of(child.pid) is None
        hold.set()
    await child.close()


async def test_a_cancelled_start_leaves_nothing() -> None:
    await (await shell("true")).close()
    before = open_pipes()
    for patience in (0.0, 0.005, 0.01, 0.02, 0.05):
        try:
            async with asyncio.timeout(patience):
                child = await shell("read x")
        except TimeoutError:
            continue
        await child.close()
    await asyncio.sleep(0)
    assert records() == []
    assert open_pipes() <= before


async def test_a_start_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0.0)
    with pytest.raises(DeadlineError, match="a shell did not start within 0 s"):
        await shell("read x")
    assert records() == []


async def test_a_child_that_others_have_reaped_is_signaled_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with await shell("exit 3") as child:
        await asyncio.to_thread(os.waitpid, child.pid, 0)
        assert child.returncode == 0, "others know how it ended"
        monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("its number may be a stranger's"))
    assert records() == []


async def test_its_lifetime_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    async with await shell("sleep 1000 & echo $!; wait", lifetime=0.5) as child:
        grandchild = int(await line_of(child))
        async with asyncio.timeout(PATIENCE):
            assert await child.wait() == -signal.SIGKILL
        assert await ends(grandchild)
    assert "a shell outlived its lifetime" in caplog.text


async def test_a_lifetime_ends_with_its_child(caplog: pytest.LogCaptureFixture) -> None:
    child = await shell("true", lifetime=600.0)
    await child.close()
    assert child._end_of_life.cancelled()
    assert caplog.text == ""


async def test_many_at_once() -> None:
    async def one(number: int) -> int:
        command = [SHELL, "-c", f"echo {number}; read x"]
        async with await start(
            command, name="one", lifetime=60.0, stdin=PIPE, stdout=PIPE
        ) as child:
            said = int(await line_of(child))
            assert reap() == [], "this process lives"
            return said

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(50)]
    assert [task.result() for task in tasks] == list(range(50))
    assert records() == []


async def test_nothing_is_shared_that_was_not_asked_for() -> None:
    listed = "import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])"
    command = [sys.executable, "-c", listed]
    child = await start(command, name="files", lifetime=60.0, stdout=PIPE, stderr=DEVNULL)
    async with child:
        assert await line_of(child) == "[0, 1, 2]"
