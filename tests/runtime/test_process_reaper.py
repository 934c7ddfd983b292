"""What killed runs leave behind is ended, and nothing else is. All processes are real."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.patience import wait_until

from agentfly.runtime import launch
from agentfly.runtime.launch import TOKEN_VARIABLE, start_time
from agentfly.runtime.process import Reaped, reap
from agentfly.runtime.process_registry import (
    FOLDER_VARIABLE,
    Identity,
    intend,
    read_token,
    records,
)

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
    pytest.mark.usefixtures("world"),
]

OWNER = """
import asyncio, sys
from agentfly.runtime.process import start

async def main():
    print("starting", flush=True)
    for script in sys.argv[1:]:
        await start(["/bin/sh", "-c", script], name=script, lifetime=100.0)
    print("started", flush=True)
    await asyncio.sleep(100)

asyncio.run(main())
"""
REAPER = """
from agentfly.runtime.process import reap
print("ready", flush=True)
input()
for reaped in reap():
    print(reaped.pid, flush=True)
"""


class World:
    """All processes of one test, known by a mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self.mark = f"TEST_MARK={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.env = {**os.environ, name: value, FOLDER_VARIABLE: str(folder)}
        self._stack = ExitStack()

    def popen(self, *command: str, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            command,
            env=self.env if env is None else env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        return process

    def owner(self, *scripts: str) -> "subprocess.Popen[str]":
        return self.popen(sys.executable, "-c", OWNER, *scripts)

    def processes(self) -> dict[int, str]:
        """Return pid and command line of everything alive that carries the mark."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environment = (folder / "environ").read_bytes().split(b"\0")
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if self.mark.encode() in environment and start_time(int(folder.name)):
                found[int(folder.name)] = command
        return found

    def close(self) -> None:
        self._stack.close()
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "registry"))
    world = World(tmp_path / "registry")
    yield world
    world.close()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def kill(process: "subprocess.Popen[str]") -> None:
    process.kill()
    process.wait()


def dead_process() -> Identity:
    """Return who is surely dead: a process that has just ended."""
    with subprocess.Popen(["sleep", "100"]) as process:
        identity = Identity.of(process.pid)
        process.kill()
    assert identity
    return identity


def put_on_record(
    child: Identity | None,
    *,
    owner: Identity,
    token: str = "abc123",
    lifetime: float = 100.0,
) -> Path:
    """Write a record as another owner and its child would have."""
    mine = intend(name="forged", lifetime=lifetime)
    path = mine.path.replace(mine.path.with_name(f"{owner.pid}-{owner.start}-{token}"))
    if child:
        path.write_text(f"{path.read_text()}{child.pid} {child.start}\n")
    return path


def test_a_child_dies_with_its_owner(world: World) -> None:
    owner = world.owner("exec sleep 1000", "exec sleep 1001")
    assert [said(owner), said(owner)] == ["starting", "started"]
    # The kernel shows no environment while a process changes its program.
    wait_until(lambda: len(world.processes()) == 3)
    kill(owner)
    wait_until(lambda: world.processes() == {})  # without any reaper
    assert len(records()) == 2
    assert reap() == [], "there was nothing left to end"
    assert records() == []


def test_a_child_whose_owner_died_during_the_start_never_runs(world: World, tmp_path: Path) -> None:
    record, ran = tmp_path / "record", tmp_path / "ran"
    record.touch()
    arguments = [str(record), str(dead_process().pid), "1", "", "", "touch", str(ran)]
    launched = world.popen(sys.executable, "-I", "-S", launch.__file__, *arguments)
    assert launched.wait() == 127
    assert said(launched) == ""
    assert not ran.exists()


def test_grandchildren_of_a_killed_owner_are_ended(world: World) -> None:
    owner = world.owner("sleep 1000 & sleep 1000 & wait")
    assert [said(owner), said(owner)] == ["starting", "started"]
    wait_until(lambda: len(world.processes()) == 4)
    [child] = [record.child for record in records()]
    assert child
    kill(owner)
    wait_until(lambda: len(world.processes()) == 2)  # the kernel ends only the child
    [reaped] = reap()
    assert reaped == Reaped(
        name="sleep 1000 & sleep 1000 & wait", pid=child.pid, reason="orphaned", processes=2
    )
    assert world.processes() == {}
    assert records() == []


def test_killed_at_any_moment_an_owner_leaves_nothing_unregistered(world: World) -> None:
    owners = [world.owner(*["sleep 1000 & wait"] * 4) for _ in range(6)]
    for number, owner in enumerate(owners):
        assert said(owner) == "starting"
        time.sleep(0.03 * number)
        kill(owner)
    wait_until(lambda: not any("launch.py" in text for text in world.processes().values()))
    reap()
    assert world.processes() == {}
    assert records() == []


def test_living_owners_are_left_alone(world: World) -> None:
    first, second = (world.owner("sleep 1000 & wait") for _ in range(2))
    for owner in (first, second):
        assert [said(owner), said(owner)] == ["starting", "started"]
    wait_until(lambda: len(world.processes()) == 6)
    assert reap() == []
    wait_until(lambda: len(world.processes()) == 6)
    kill(first)
    assert [reaped.processes for reaped in reap()] in ([1], [2])
    wait_until(lambda: len(world.processes()) == 3)
    assert [record.owner.pid for record in records()] == [second.pid]


def test_an_orphan_that_still_runs_is_ended_with_its_group(world: World) -> None:
    """As on systems where the kernel does not end a child with its owner."""
    script = "env -i sleep 1000 & sleep 1000 & echo ready; wait"
    child = world.popen("/bin/sh", "-c", script)
    assert said(child) == "ready"
    identity = Identity.of(child.pid)
    put_on_record(identity, owner=dead_process())
    assert [reaped.processes for reaped in reap()] == [3]
    assert child.wait() == -signal.SIGKILL
    assert world.processes() == {}


def test_a_grandchild_in_a_session_of_its_own_is_found_by_its_token(world: World) -> None:
    env = {**world.env, TOKEN_VARIABLE: "abc123"}
    runaway = world.popen("sleep", "1000", env=env)
    stranger = world.popen("sleep", "1000", env={**world.env, TOKEN_VARIABLE: "abc1234"})
    put_on_record(dead_process(), owner=dead_process(), token="abc123")
    assert [reaped.processes for reaped in reap()] == [1]
    assert runaway.wait() == -signal.SIGKILL
    assert stranger.poll() is None


def test_a_process_that_is_changing_its_program_is_found(world: World, tmp_path: Path) -> None:
    restless = tmp_path / "restless"
    restless.write_text('#!/bin/sh\nexec "$0"\n')
    restless.chmod(0o700)
    process = world.popen(str(restless), env={**world.env, TOKEN_VARIABLE: "ec5ec5"})
    # In one of some 2,000 moments its environment is there, but empty.
    assert {read_token(process.pid) for _ in range(20_000)} == {"ec5ec5"}
    put_on_record(dead_process(), owner=dead_process(), token="ec5ec5")
    assert [reaped.processes for reaped in reap()] == [1]
    assert process.wait() == -signal.SIGKILL


def test_a_process_that_was_given_the_same_pid_is_left_alone(world: World) -> None:
    stranger = world.popen("/bin/sh", "-c", "sleep 1000 & echo ready; wait")
    assert said(stranger) == "ready"
    start = start_time(stranger.pid)
    assert start
    recycled = Identity(pid=stranger.pid, start=start - 1)
    path = put_on_record(recycled, owner=dead_process())
    assert reap() == []
    assert not path.exists()
    wait_until(lambda: len(world.processes()) == 2)


def test_a_recycled_owner_is_a_dead_owner(world: World) -> None:
    child = world.popen("sleep", "1000")
    me = Identity.of(os.getpid())
    assert me
    put_on_record(Identity.of(child.pid), owner=Identity(pid=me.pid, start=me.start - 1))
    assert [reaped.pid for reaped in reap()] == [child.pid]


@pytest.mark.parametrize(("lifetime", "ended"), [(-1.0, True), (100.0, False)])
def test_a_lifetime_binds_a_living_owner_too(world: World, lifetime: float, ended: bool) -> None:
    child = world.popen("sleep", "1000")
    me = Identity.of(os.getpid())
    assert me
    path = put_on_record(Identity.of(child.pid), owner=me, lifetime=lifetime)
    assert [reaped.reason for reaped in reap()] == (["expired"] if ended else [])
    assert path.exists() is not ended
    assert (Identity.of(child.pid) is None) is ended


def test_unfinished_records_are_judged_by_their_owner(world: World) -> None:
    me = Identity.of(os.getpid())
    assert me
    stranger = world.popen("sleep", "1000")
    dead = put_on_record(None, owner=dead_process(), token="01")
    empty = put_on_record(None, owner=dead_process(), token="02")
    empty.write_text("")
    torn = put_on_record(None, owner=dead_process(), token="03")
    torn.write_text(torn.read_text() + f"{stranger.pid} {start_time(stranger.pid)}")
    starting = put_on_record(None, owner=me, token="04", lifetime=-1.0)
    assert reap() == []
    assert [path.exists() for path in (dead, empty, torn, starting)] == [False] * 3 + [True]
    assert stranger.poll() is None


def flip_a_bit_of_the_deadline(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b'"deadline": ') + len(b'"deadline": ')
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "not JSON": lambda path: path.write_bytes(b"{\n" + path.read_bytes().partition(b"\n")[2]),
    "not text": lambda path: path.write_bytes(b"\xff\n1 2\n"),
    "wrong types": lambda path: path.write_text('{"v": 1, "name": [], "deadline": "soon"}\n1 2\n'),
    "nothing in it": lambda path: path.write_text("{}\n1 2\n"),
    "a list": lambda path: path.write_text("[]\n1 2\n"),
    "no pid": lambda path: path.write_bytes(path.read_bytes().partition(b"\n")[0] + b"\nx y\n"),
    "three numbers": lambda path: path.write_bytes(path.read_bytes()[:-1] + b" 3\n"),
    "a pid of too many digits": lambda path: path.write_bytes(
        path.read_bytes().partition(b"\n")[0] + b"\n" + b"9" * 5000 + b" 1\n"
    ),
    "a flipped bit": flip_a_bit_of_the_deadline,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_ends_with_its_owner_and_disturbs_no_other(
    world: World, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    me = Identity.of(os.getpid())
    assert me
    child = world.popen("sleep", "1000", env={**world.env, TOKEN_VARIABLE: "0a"})
    living = put_on_record(Identity.of(child.pid), owner=me, token="0a", lifetime=1e9)
    DAMAGES[damage](living)
    orphan = world.popen("sleep", "1000", env={**world.env, TOKEN_VARIABLE: "0b"})
    dead = put_on_record(Identity.of(orphan.pid), owner=dead_process(), token="0b")
    DAMAGES[damage](dead)
    sound = world.popen("sleep", "1000")
    put_on_record(Identity.of(sound.pid), owner=dead_process(), token="0c")
    reap()
    assert str(living) in caplog.text
    assert child.poll() is None, "its owner lives"
    assert living.exists()
    assert not dead.exists()
    assert orphan.wait() == -signal.SIGKILL, "known by its token"
    assert sound.wait() == -signal.SIGKILL


def test_a_folder_in_place_of_a_record_disturbs_no_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    sound = world.popen("sleep", "1000")
    path = put_on_record(Identity.of(sound.pid), owner=dead_process())
    path.with_name("1-1-ff").mkdir()
    assert [reaped.pid for reaped in reap()] == [sound.pid]
    assert "1-1-ff is no record" in caplog.text


def test_records_of_other_machines_and_other_files_are_left_alone(world: World) -> None:
    child = world.popen("sleep", "1000")
    here = put_on_record(Identity.of(child.pid), owner=dead_process())
    there = here.parent.with_name("another-machine") / here.name
    there.parent.mkdir()
    here.replace(there)
    notes = here.with_name("notes.txt")
    notes.write_text("mine")
    assert reap() == []
    assert there.exists()
    assert notes.exists()
    assert child.poll() is None


def test_a_reaper_below_an_orphan_does_not_end_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = world.popen("sleep", "1000")
    put_on_record(Identity.of(child.pid), owner=dead_process(), token="abc123")
    monkeypatch.setenv(TOKEN_VARIABLE, "abc123")
    assert reap() == []
    monkeypatch.delenv(TOKEN_VARIABLE)
    assert [reaped.pid for reaped in reap()] == [child.pid]


def test_two_reapers_at_once_miss_nothing(world: World) -> None:
    orphans = [world.popen("sleep", "1000") for _ in range(10)]
    for number, orphan in enumerate(orphans):
        put_on_record(Identity.of(orphan.pid), owner=dead_process(), token=f"{number:02x}")
    reapers = [world.popen(sys.executable, "-c", REAPER) for _ in range(2)]
    assert [said(reaper) for reaper in reapers] == ["ready", "ready"]
    for reaper in reapers:
        assert reaper.stdin
        reaper.stdin.write("\n")
        reaper.stdin.flush()
    reported = {int(pid) for reaper in reapers for pid in reaper.communicate()[0].split()}
    assert reported == {orphan.pid for orphan in orphans}
    assert [reaper.returncode for reaper in reapers] == [0, 0]
    assert [orphan.wait() for orphan in orphans] == [-signal.SIGKILL] * 10
    assert records() == []


def test_a_process_may_have_any_name(world: World, tmp_path: Path) -> None:
    program = tmp_path / "x) Z 1 (y"
    program.symlink_to("/bin/sleep")
    process = world.popen(str(program), "1000")
    plain = world.popen("sleep", "1000")
    wait_until(lambda: "x) Z 1 (y" in Path(f"/proc/{process.pid}/comm").read_text())
    first, second = start_time(process.pid), start_time(plain.pid)
    assert first
    assert second
    assert 0 <= second - first < 100 * os.sysconf("SC_CLK_TCK")


def test_old_kernels_have_no_handles(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> int:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    child = world.popen("sleep", "1000")
    put_on_record(Identity.of(child.pid), owner=dead_process())
    assert [reaped.pid for reaped in reap()] == [child.pid]
    assert child.wait() == -signal.SIGKILL


def test_records_are_in_the_users_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    record = intend(name="x", lifetime=1.0)
    assert record.path.parent.parent == tmp_path / "state" / "agentfly" / "processes"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    record = intend(name="x", lifetime=1.0)
    assert record.path.is_relative_to(tmp_path / "home" / ".local" / "state" / "agentfly")
    assert record.path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_without_proc_ps_is_asked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    process = world.popen("sleep", "1000")
    started = start_time(process.pid)
    assert started
    assert abs(time.time() - started) < 60
    process.kill()
    wait_until(lambda: start_time(process.pid) is None)  # a zombie
    process.wait()
    assert start_time(process.pid) is None


def test_a_zombie_is_dead() -> None:
    with subprocess.Popen(["true"]) as process:
        wait_until(lambda: start_time(process.pid) is None)
        assert process.returncode is None, "nobody has waited for it yet"
