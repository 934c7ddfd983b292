"""Cgroups for sandboxes: the kernel counts what no watch sees, and none of them is left behind."""

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE
from tests.sandbox.test_sandbox_life import gone

from agentfly.runtime.process_registry import FOLDER_VARIABLE, Identity
from agentfly.sandbox import CellResult, PythonSandbox, SandboxLimits, levels, probe
from agentfly.sandbox.levels import WarmServers

if sys.platform != "linux":
    pytest.skip("cgroups are Linux's", allow_module_level=True)

from agentfly.sandbox.inside import cgroup

LOCKING = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("locked", flush=True)
input()
"""


def test_what_a_killed_server_left_behind_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in ("agentfly-dead/0", "agentfly-live/0", "somebody-elses/0"):
        (tmp_path / name).mkdir(parents=True)
    live = os.open(tmp_path / "agentfly-live", os.O_RDONLY)
    fcntl.flock(live, fcntl.LOCK_EX)
    command = [sys.executable, "-c", LOCKING, str(tmp_path / "agentfly-dead")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as server:  # type: ignore[call-overload]
        assert server.stdout.readline() == b"locked\n"
        cgroup.remove_abandoned(tmp_path)
        assert (tmp_path / "agentfly-dead" / "0").exists(), "its server lives"
        server.kill()
    cgroup.remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agentfly-live", "somebody-elses"]
    assert (tmp_path / "agentfly-live" / "0").exists()
    os.close(live)


@pytest.fixture
def groups() -> Iterator[cgroup.Groups]:
    try:
        made = cgroup.Groups.make()
    except cgroup.NoCgroupError as error:
        pytest.skip(f"no cgroup can be had here: {error}")
    yield made
    assert cgroup.remove(made.path)


HOLDING = """
import mmap, os, sys
sys.stdin.readline()
held = [mmap.mmap(-1, 16 << 20) for _ in range(8)]
for block in held:
    for start in range(0, len(block), mmap.PAGESIZE):
        block[start] = 1
    block.madvise(mmap.MADV_DONTNEED)
print("held", flush=True)
"""


@pytest.mark.parametrize(("limit", "said"), [(64 << 20, b""), (512 << 20, b"held\n")])
def test_shared_pages_that_are_given_back_are_counted(
    groups: cgroup.Groups, limit: int, said: bytes
) -> None:
    group = groups.open(limit)
    command = [sys.executable, "-c", HOLDING]
    done = subprocess.run(
        command, input=b"\n", stdout=subprocess.PIPE, preexec_fn=group.enter, check=False
    )
    assert done.stdout == said
    assert group.was_exceeded() is (said == b"")
    groups.close(group)
    assert not (groups.path / group.name).exists()


@pytest.fixture
def own_servers(groups: cgroup.Groups, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmServers]:
    made = WarmServers()
    monkeypatch.setattr(levels, "warm_servers", lambda: made)
    yield made
    made.close()


def folders(groups: cgroup.Groups) -> set[Path]:
    """Return the cgroups of sandboxes, but not those that a test itself has made."""
    found = groups.path.parent.glob("agentfly-*/*")
    return {path for path in found if path.is_dir() and path.parent != groups.path}


def processes_in(path: Path) -> list[int]:
    return [int(pid) for pid in (path / "cgroup.procs").read_text().split()]


async def run_once(code: str) -> CellResult:
    sandbox = PythonSandbox()
    result = await sandbox.run(code)
    await sandbox.close()
    return result


def test_every_sandbox_is_in_a_cgroup_of_its_own(
    own_servers: WarmServers, groups: cgroup.Groups
) -> None:
    before = folders(groups)
    assert "memory of all processes: a cgroup, and a watch" in asyncio.run(probe()).layers
    assert folders(groups) == before, "what the probe made is gone"

    async def look_around_a_sandbox() -> set[Path]:
        sandbox = PythonSandbox(limits=SandboxLimits(memory_mb=100, disk_mb=10))
        await sandbox.reset()
        made = folders(groups) - before
        (limit,) = {int((path / "memory.max").read_text()) for path in made}
        assert 143 << 20 <= limit < 400 << 20, "all limits together, and what is shared"
        async with asyncio.timeout(PATIENCE):
            while not all(map(processes_in, made)):  # noqa: ASYNC110 - no event tells of a spare
                await asyncio.sleep(0.05)
        await sandbox.close()
        return made

    assert len(asyncio.run(look_around_a_sandbox())) == 3, "the sandbox's and two spares'"
    own_servers.close()
    assert folders(groups) == before


FILLING = """
with open("large", "wb") as file:
    for _ in range(300):
        file.write(bytes(1 << 20))
"""


def test_the_kernel_ends_a_sandbox_that_holds_too_much(
    own_servers: WarmServers, groups: cgroup.Groups
) -> None:
    before = folders(groups)

    async def fill_a_file_beyond_the_cgroups_limit() -> CellResult:
        sandbox = PythonSandbox(limits=SandboxLimits(disk_mb=400, file_mb=400))
        await sandbox.reset()
        for path in folders(groups) - before:
            (path / "memory.max").write_text(str(128 << 20))
        result = await sandbox.run(FILLING)
        await sandbox.close()
        return result

    result = asyncio.run(fill_a_file_beyond_the_cgroups_limit())
    assert (result.status, result.limit) == ("killed", "memory")


OWNER = """
import asyncio
from agentfly.sandbox import PythonSandbox
async def main():
    sandbox = PythonSandbox()
    await sandbox.reset()
    print("ready", flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


@pytest.mark.usefixtures("own_servers")
def test_the_next_server_removes_what_a_killed_owner_left(
    groups: cgroup.Groups, tmp_path: Path
) -> None:
    before = folders(groups)
    environment = {**os.environ, FOLDER_VARIABLE: str(tmp_path)}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        left = folders(groups) - before
        inside = [Identity.of(pid) for path in left for pid in processes_in(path)]
        owner.kill()
    assert len(left) == 3
    asyncio.run(gone([identity for identity in inside if identity]))
    assert asyncio.run(run_once("1 + 1")).value == "2"
    assert not folders(groups) & left
