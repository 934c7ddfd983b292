"""Sandboxes that read the same files neither reach each other nor the host through them."""

import fcntl
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.patience import PATIENCE

from agentfly.sandbox import PythonSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux namespaces")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all tests: a fork server starts for each set of readable folders."""
    made = tmp_path_factory.mktemp("shared")
    made.chmod(0o755)
    (made / "file").write_text("shared")
    return made


@pytest.fixture
async def pair(folder: Path) -> AsyncIterator[tuple[PythonSandbox, PythonSandbox]]:
    made = [PythonSandbox(readable=(str(folder),)) for _ in range(2)]
    for sandbox in made:
        await sandbox.run(f"import fcntl, os; file = open({str(folder / 'file')!r})")
    yield made[0], made[1]
    for sandbox in made:
        await sandbox.close()


Pair = tuple[PythonSandbox, PythonSandbox]

LOCKS = ("fcntl.flock(file, fcntl.LOCK_EX)", "fcntl.lockf(file, fcntl.LOCK_SH)")


@pytest.mark.parametrize("code", LOCKS)
async def test_a_lock_inside_does_not_keep_the_host_from_its_file(
    pair: Pair, folder: Path, code: str
) -> None:
    assert (await pair[0].run(code)).ok
    with (folder / "file").open("r+") as own:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.lockf(own, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("path", ["file", "/usr/bin/env", "/dev/null", "/etc/passwd"])
async def test_a_lock_passes_no_bit_to_another_sandbox(pair: Pair, folder: Path, path: str) -> None:
    seen = []
    for flag in ("fcntl.LOCK_EX", "fcntl.LOCK_UN"):
        opened = f"held = open({str(folder / path)!r})\n"
        assert (await pair[0].run(f"{opened}fcntl.flock(held, {flag})")).ok
        tried = await pair[1].run(f"{opened}fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)")
        seen.append(tried.observation)
    assert len(set(seen)) == 1


async def test_a_lock_of_the_host_stays_and_is_not_seen(pair: Pair, folder: Path) -> None:
    with (folder / "file").open("r+") as own, (folder / "file").open("r+") as second:
        fcntl.flock(own, fcntl.LOCK_EX)
        taken = await pair[0].run("fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")
        assert taken.ok, "as if it were free"
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_no_service_is_reached_through_a_socket_in_a_readable_folder(
    pair: Pair, folder: Path
) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        path = folder / "socket"
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        listener.setblocking(False)
        code = f"import socket\nlink = socket.socket(socket.AF_UNIX)\nlink.connect({str(path)!r})"
        assert "PermissionError" in str((await pair[0].run(code)).error)
        with pytest.raises(BlockingIOError):
            listener.accept()


async def test_a_device_that_all_share_keeps_its_times(pair: Pair) -> None:
    touched = await pair[0].run("os.utime('/dev/null')")
    assert "Read-only file system" in str(touched.error)


STILL_WORKS = {
    "sqlite3": """
import sqlite3
with sqlite3.connect("a.db") as link, sqlite3.connect("a.db") as second:
    link.execute("create table t (x)")
    link.execute("insert into t values (7)")
    link.commit()
    found = second.execute("select x from t").fetchall()
found == [(7,)]
""",
    "sqlite3 with a write-ahead log": """
import sqlite3
with sqlite3.connect("wal.db") as link, sqlite3.connect("wal.db") as second:
    link.execute("pragma journal_mode=wal")
    link.execute("create table t (x)")
    link.execute("insert into t values (7)")
    link.commit()
    found = second.execute("select x from t").fetchall()
found == [(7,)]
""",
    "shelve": """
import shelve
with shelve.open("shelf") as shelf:
    shelf["x"] = 7
with shelve.open("shelf") as shelf:
    found = shelf["x"]
found == 7
""",
    "asyncio": "import asyncio\nawait asyncio.sleep(0, result=True)",
    "asyncio's programs": """
import asyncio
program = await asyncio.create_subprocess_exec("echo", "7", stdout=asyncio.subprocess.PIPE)
(await program.communicate())[0] == b"7\\n"
""",
    "multiprocessing's pool": """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(abs, [-7, 7])
found == [7, 7]
""",
    "multiprocessing's pipes, queues and arrays": """
import multiprocessing
context = multiprocessing.get_context("fork")
ours, theirs = context.Pipe()
queue, array = context.Queue(), context.Array("i", 1)
def work():
    theirs.send(3)
    queue.put(4)
    array[0] = 5
worker = context.Process(target=work)
worker.start()
found = [ours.recv(), queue.get()]
worker.join()
[*found, array[0]] == [3, 4, 5]
""",
    "multiprocessing's shared memory": """
from multiprocessing.shared_memory import SharedMemory
block = SharedMemory(create=True, size=8)
block.buf[0] = 7
again = SharedMemory(name=block.name)
found = again.buf[0]
block.unlink()
found == 7
""",
    "a private mapping": """
import mmap
held = mmap.mmap(-1, 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
held[0] = 7
held[0] == 7
""",
    "a shared mapping of a file": """
import mmap
with open("mapped", "w+b") as file:
    file.truncate(8)
    held = mmap.mmap(file.fileno(), 8)
    held[0] = 7
open("mapped", "rb").read(1) == b"\\x07"
""",
    "the devices": """
with open("/dev/null", "w") as null, open("/dev/urandom", "rb") as random:
    found = null.write("x"), len(random.read(8))
found == (1, 8)
""",
}


@pytest.mark.parametrize("what", STILL_WORKS)
async def test_what_programs_need_still_works(what: str) -> None:
    sandbox = PythonSandbox()
    result = await sandbox.run(STILL_WORKS[what])
    assert result.value == "True", result.observation
    await sandbox.close()


FORKING = """
import multiprocessing, sys
from multiprocessing import context
context._default_context._default_context = multiprocessing.get_context("forkserver")
sys.version_info = (3, 14)
from agentfly.sandbox.inside import confine, seccomp
confine.fork_workers()
seccomp.load()
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-7, 7]))
"""


def test_workers_are_forked_where_pythons_default_needs_a_socket() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == "[7, 7]\n", done.stderr


LOST = {
    "multiprocessing.Manager()": "import multiprocessing; multiprocessing.Manager()",
    "a server of asyncio": "import asyncio; await asyncio.start_unix_server(print, 'socket')",
    "shared memory without a file": "import mmap; mmap.mmap(-1, 8)",
}
"""What the documentation says can't be had: it must fail with an error, not hang."""


@pytest.mark.parametrize("what", LOST)
async def test_what_is_lost_says_so(what: str) -> None:
    sandbox = PythonSandbox()
    result = await sandbox.run(LOST[what])
    assert result.error is not None, result.observation
    assert result.limit is None
    await sandbox.close()


async def test_a_readable_folder_may_lie_in_shared_memory() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        sandbox = PythonSandbox(readable=(folder,))
        result = await sandbox.run(f"import os; os.listdir({str(Path(folder).parent)!r})")
        await sandbox.close()
    assert result.value == repr([Path(folder).name])
