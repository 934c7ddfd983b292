"""Sandboxes: how long one takes to start and answer, a call in a live one, and what 500 take.

Beside them, in the same run, a bare `subprocess.run([python, "-c", …])`, which isolates nothing.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.report import report

from agentfly.sandbox import PythonSandbox

STARTS, CALLS, LIVE, BARE = 100, 500, 500, 11


def numbers() -> dict[str, float]:
    """Measure everything and return it under flat names."""
    return {**asyncio.run(_sandboxes()), **_subprocess()}


AIMS = {"sandbox_start_ms_p50": "10", "call_ms_p50": "1", "live_500_mb_each": "2"}


async def _sandboxes() -> dict[str, float]:
    sandbox = PythonSandbox()
    await sandbox.run("")  # Imports the packages, once.
    starts = [await _start(sandbox) for _ in range(STARTS)]
    calls = [await _call(sandbox) for _ in range(CALLS)]
    await sandbox.close()
    return {
        "sandbox_start_ms_p50": statistics.median(starts),
        "sandbox_start_ms_p95": statistics.quantiles(starts, n=20)[-1],
        "call_ms_p50": statistics.median(calls),
        **await _many_alive(),
    }


async def _start(sandbox: PythonSandbox) -> float:
    began = time.perf_counter()
    await sandbox.reset()
    result = await sandbox.run("1 + 1")
    assert result.value == "2", result
    return 1000 * (time.perf_counter() - began)


async def _call(sandbox: PythonSandbox) -> float:
    began = time.perf_counter()
    result = await sandbox.run("1 + 1")
    assert result.value == "2", result
    return 1000 * (time.perf_counter() - began)


async def _many_alive() -> dict[str, float]:
    """Start 500, each with a variable of its own, and let each tell it once all are alive."""
    sandboxes = [PythonSandbox() for _ in range(LIVE)]
    before, began = _available_mb(), time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for index, sandbox in enumerate(sandboxes):
            group.create_task(sandbox.run(f"x = {index}"))
    up, used = time.perf_counter() - began, before - _available_mb()
    for index, sandbox in enumerate(sandboxes):
        assert (await sandbox.run("x")).value == str(index)
    async with asyncio.TaskGroup() as group:
        for sandbox in sandboxes:
            group.create_task(sandbox.close())
    return {"live_500_s": up, "live_500_mb_each": used / LIVE}


def _available_mb() -> float:
    """Return what the kernel says is free, which counts all that a sandbox takes, pages shared."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable")) / 1024


def _subprocess() -> dict[str, float]:
    """Time a bare interpreter, with and without the packages that a sandbox has ready."""
    return {
        "subprocess_start_ms_p50": _bare("print(1 + 1)"),
        "subprocess_with_packages_ms_p50": _bare("import numpy, sympy; print(1 + 1)"),
    }


def _bare(code: str) -> float:
    times = []
    for _ in range(BARE):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return 1000 * statistics.median(times)


def main() -> None:
    report("sandbox", numbers(), aims=AIMS)


if __name__ == "__main__":
    main()
