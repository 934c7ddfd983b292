"""Runs every attempt, as whoever runs this program, and prints what came of each as JSON.

    {"bare": {"read a file outside": "True", …}, "sandboxed": {…}, "host": {"files": true, …}}

Only the harmless ones are run bare, each in a process of its own.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sysconfig
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.sandbox.escape_attempts import BOMBS, HARMFUL, HARMLESS

from agentfly.runtime.registry import FOLDER_VARIABLE
from agentfly.sandbox.interpreter.cell import Cells
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.python import PythonSandbox

SMALL = SandboxLimits(seconds=30.0, memory_mb=256, disk_mb=48, processes=24)
INTERRUPTED = SandboxLimits(seconds=1.0, grace_seconds=20.0)
"""For those that must stop at the time limit, where the others must not meet it, however slow."""
KILLED = SandboxLimits(seconds=1.0, grace_seconds=0.3)
"""For those that never would."""


def plant(folder: Path, victim: int) -> dict[str, Any]:
    """Plant a secret, listeners and an inherited descriptor, and describe them to the attempts."""
    secret = folder / "secret"
    secret.write_text("the planted secret")
    (folder / "neighbours-file").write_text("mine")
    os.set_inheritable(os.open(secret, os.O_RDONLY), True)
    abstract = f"planted-{os.getpid()}"
    port = listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
    listen(socket.AF_UNIX, str(folder / "socket"))
    listen(socket.AF_UNIX, f"\0{abstract}")
    return {
        "folder": str(folder),
        "secret": str(secret),
        "content": "the planted secret",
        "inode": secret.stat().st_ino,
        "pid": os.getpid(),
        "victim": victim,
        "port": port,
        "unix": str(folder / "socket"),
        "abstract": abstract,
        "hostname": socket.gethostname(),
        "packages": sysconfig.get_paths()["purelib"],
    }


def listen(family: int, address: Any) -> socket.socket:
    """Say hello to whoever connects."""
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen(64)

    def greet() -> None:
        while True:
            link, _ = listener.accept()
            with contextlib.suppress(OSError), link:
                link.send(b"hello")

    threading.Thread(target=greet, daemon=True).start()
    return listener


def run_bare(code: str, planted: dict[str, Any]) -> str:
    """Run an attempt in a fork of this process, without any sandbox."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with tempfile.TemporaryDirectory(dir=planted["folder"]) as folder:
            os.chdir(folder)
            os.write(writing, _outcome(code, planted).encode())
            os.chdir("/")
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        outcome = pipe.read()
    os.waitpid(child, 0)
    return outcome


def _outcome(code: str, planted: dict[str, Any]) -> str:
    try:
        return repr(Cells({"PLANTED": planted}).run(code))
    except BaseException as error:  # noqa: BLE001 - an attempt may raise anything
        return f"{type(error).__name__}: {error}"


async def run_sandboxed(planted: dict[str, Any]) -> dict[str, str]:
    """Run every attempt in a sandbox of its own, beside a neighbour."""
    neighbour, outcomes = PythonSandbox(), {}
    await neighbour.write_file("neighbours-file", "mine")
    sandbox = PythonSandbox()
    for name, code in {**HARMLESS, **HARMFUL}.items():
        await sandbox.reset()
        await sandbox.run(f"PLANTED = {planted!r}")
        result = await sandbox.run(code)
        outcomes[name] = result.value or (result.error or result.observation).splitlines()[-1]
    still_there = await neighbour.list_files()
    outcomes["the neighbour is well"] = repr(still_there != ["neighbours-file"])
    await sandbox.close()
    await neighbour.close()
    return outcomes


async def run_bombs() -> tuple[dict[str, str], bool]:
    """Set off every bomb in a sandbox of its own; tell whether all processes are gone after."""
    hasty = {"interrupted time": INTERRUPTED, "killed time": KILLED}
    sandboxes = {ending: PythonSandbox(limits=limits) for ending, limits in hasty.items()}
    other, outcomes = PythonSandbox(limits=SMALL), {}
    for name, (code, ending) in BOMBS.items():
        sandbox = sandboxes.get(ending, other)
        await sandbox.reset()
        result = await sandbox.run(code)
        outcomes[name] = f"{result.status} {result.limit}"
        afterwards = await sandbox.run("1 + 1")
        outcomes[f"after {name}"] = str(afterwards.value or afterwards.observation)
    for sandbox in (*sandboxes.values(), other):
        await sandbox.close()
    return outcomes, await only_servers_and_spares_are_left()


async def only_servers_and_spares_are_left() -> bool:
    """Wait for what was killed to be gone: 2 processes of each server, 2 spares, the victim."""
    for _ in range(100):
        if len(descendants(os.getpid())) <= 5:
            return True
        await asyncio.sleep(0.1)
    return False


def descendants(pid: int) -> list[int]:
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found


@contextlib.contextmanager
def unchanged(planted: dict[str, Any], host: dict[str, bool]) -> Iterator[None]:
    def look() -> tuple[list[str], str, str]:
        mounts = Path("/proc/self/mountinfo").read_text()
        files = sorted(map(str, Path(planted["folder"]).rglob("*")))
        return files, mounts, Path(planted["secret"]).read_text()

    before = look()
    yield
    after = look()
    for what, then, now in zip(("files", "mounts", "secret"), before, after, strict=True):
        host[what] = then == now


def main() -> None:
    host: dict[str, bool] = {}
    victim = subprocess.Popen(["sleep", "300"])
    with tempfile.TemporaryDirectory() as registry, tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = registry
        planted = plant(Path(folder), victim.pid)
        with unchanged(planted, host):
            bare = {name: run_bare(code, planted) for name, code in HARMLESS.items()}
            sandboxed = asyncio.run(run_sandboxed(planted))
            bombs, host["processes"] = asyncio.run(run_bombs())
    host["victim"] = victim.poll() is None
    victim.kill()
    victim.wait()
    found = {"bare": bare, "sandboxed": sandboxed, "bombs": bombs, "host": host}
    print(json.dumps({**found, "uid": os.getuid()}))


if __name__ == "__main__":
    main()
