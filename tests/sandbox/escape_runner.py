"""Runs attempts, as whoever runs this program, and prints what came of each as JSON.

    escape_runner.py harmless    {"bare": {"read a file outside": "True", …}, "sandboxed": {…}, …}
    escape_runner.py harmful     {"sandboxed": {…}, "bombs": {…}, "host": {"victim": true, …}, …}
    escape_runner.py weakened    the same without isolation; "kill everyone" ends it after all

The last two refuse to run but in the namespaces of `throwaway.py`.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.sandbox import throwaway
from tests.sandbox.escape_attempts import (
    BOMBS,
    GO_OFF_WEAKENED,
    HARMFUL,
    HARMLESS,
    KILL_EVERYONE,
    SUCCEED_WEAKENED,
)
from tests.sandbox.escape_planting import plant, plant_services, plant_shared, unchanged

from agentfly.runtime.process_registry import FOLDER_VARIABLE
from agentfly.sandbox.interpreter.cell import Cells
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.python import PythonSandbox

ROOMY = SandboxLimits(cpu_seconds=60)
SMALL = SandboxLimits(seconds=30.0, cpu_seconds=60, memory_mb=256, disk_mb=48, processes=24)
INTERRUPTED = SandboxLimits(seconds=1.0, grace_seconds=20.0, cpu_seconds=60)
"""For those that must stop at the time limit, where the others must not meet it, however slow."""
KILLED = SandboxLimits(seconds=1.0, grace_seconds=0.3, cpu_seconds=60)
"""For those that never would."""

Outcomes = dict[str, str]


def harmless(planted: dict[str, Any]) -> dict[str, Any]:
    bare = {name: run_bare(code, planted) for name, code in HARMLESS.items()}
    return {"bare": bare, "sandboxed": asyncio.run(run_sandboxed(HARMLESS, planted))}


def harmful(planted: dict[str, Any]) -> dict[str, Any]:
    throwaway.insist()
    sandboxed = asyncio.run(run_sandboxed(HARMFUL, planted))
    return {"sandboxed": sandboxed, "bombs": asyncio.run(run_bombs(BOMBS))}


def weakened(planted: dict[str, Any]) -> dict[str, Any]:
    throwaway.insist()
    unsandboxed = asyncio.run(run_weakened(SUCCEED_WEAKENED, planted))
    return {"sandboxed": unsandboxed, "bombs": asyncio.run(run_bombs(GO_OFF_WEAKENED, "unsafe"))}


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


async def run_sandboxed(attempts: Mapping[str, str], planted: dict[str, Any]) -> Outcomes:
    """Run every attempt in a sandbox of its own, beside a neighbor."""
    readable = (planted["shared"],) if "shared" in planted else ()
    neighbor, outcomes = PythonSandbox(limits=ROOMY, readable=readable), {}
    await neighbor.write_file("neighbors-file", "mine")
    sandbox = PythonSandbox(limits=ROOMY, readable=readable)
    for name, code in attempts.items():
        await sandbox.reset()
        outcomes[name] = await outcome_inside(sandbox, code, planted)
    still_there = await neighbor.list_files()
    outcomes["disturb the neighbor"] = repr(still_there != ["neighbors-file"])
    await sandbox.close()
    await neighbor.close()
    return outcomes


async def run_weakened(names: Iterable[str], planted: dict[str, Any]) -> Outcomes:
    """Run attempts in what calls itself a sandbox and holds nothing back."""
    sandbox = PythonSandbox(limits=ROOMY, isolation="unsafe", unsafe=True)
    outcomes = {name: await outcome_inside(sandbox, HARMFUL[name], planted) for name in names}
    await sandbox.close()
    return outcomes


async def outcome_inside(sandbox: PythonSandbox, code: str, planted: dict[str, Any]) -> str:
    await sandbox.run(f"PLANTED = {planted!r}")
    result = await sandbox.run(code)
    return result.value or (result.error or result.observation).splitlines()[-1]


async def run_bombs(names: Iterable[str], isolation: str | None = None) -> Outcomes:
    """Set off every bomb in a sandbox of its own, and see whether it goes on afterwards."""
    hasty = {"interrupted time": INTERRUPTED, "killed time": KILLED}
    sandboxes: dict[SandboxLimits, PythonSandbox] = {}
    outcomes = {}
    for name in names:
        code, ending = BOMBS[name]
        limits = hasty.get(ending, SMALL)
        made = PythonSandbox(limits=limits, isolation=isolation, unsafe=isolation == "unsafe")
        sandbox = sandboxes.setdefault(limits, made)
        await sandbox.reset()
        result = await sandbox.run(code)
        outcomes[name] = f"{result.status} {result.limit}"
        afterwards = await sandbox.run("1 + 1")
        outcomes[f"after {name}"] = str(afterwards.value or afterwards.observation)
    for sandbox in sandboxes.values():
        await sandbox.close()
    return outcomes


async def only_servers_and_spares_are_left() -> bool:
    """Wait for what was killed to be gone: 2 processes of each server, 2 spares, the victim."""
    for _ in range(100):
        if len(descendants(os.getpid())) <= 5:
            return True
        await asyncio.sleep(0.1)
    return False


def descendants(pid: int) -> list[int]:
    """Return the processes below one, in its pid namespace's numbers."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found


RUNS = {run.__name__: run for run in (harmless, harmful, weakened)}


def main(kind: str) -> None:
    host: dict[str, bool] = {}
    victim = subprocess.Popen(["sleep", "infinity"])
    with tempfile.TemporaryDirectory() as registry, tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER_VARIABLE] = registry
        planted = plant_services(plant(Path(folder), victim.pid))
        if kind == "harmless":
            planted = plant_shared(planted)
        with unchanged(planted, host):
            found = RUNS[kind](planted)
        host["processes"] = asyncio.run(only_servers_and_spares_are_left())
        host["victim"] = victim.poll() is None
        print(json.dumps({**found, "host": host, "uid": os.getuid()}), flush=True)
        if kind == "weakened":
            asyncio.run(run_weakened([KILL_EVERYONE], planted))
        victim.kill()
        victim.wait()


if __name__ == "__main__":
    main(sys.argv[1])
