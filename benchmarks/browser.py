"""Time of a step in the browser, steps per second of sixteen chains, and memory of a context.

A step clicks or types in a form of the generated office and returns the page that follows; opening
pages counts too. Memory is what the processes of one more open page take, shared pages divided
among those that share them. Without Chromium there are no numbers.

    python -m benchmarks.browser
"""

import asyncio
import statistics
import time

from agentfly.environments.browser import BROWSER, BrowserSession
from agentfly.environments.browser.chromium.memory import proportional_mb
from agentfly.environments.browser.chromium.pool import browser_pool
from agentfly.environments.browser.experts.view import View
from agentfly.runtime.background import in_background
from agentfly.types import Seed, Task

CONTEXTS, STEPS, WARM_UP = 16, 200, 20
AIMS = {"browser_step_ms_p50": "50, with one context active"}
TASK = Task.from_row({"id": "request", "site": "office", "task": "request", "seed": 1})


def measure() -> dict[str, float]:
    """Return milliseconds of a step, steps per second of sixteen, and megabytes of a context."""
    missing = BROWSER.requires()
    if missing is not None:
        print(f"browser_step_ms_p50 is left out: {missing}")
        return {}
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    sessions = [BrowserSession() for _ in range(CONTEXTS)]
    try:
        await sessions[0].reset(TASK, Seed(0))
        await _steps(sessions[0], WARM_UP)
        alone = await _steps(sessions[0], STEPS)
        one = await _megabytes()
        async with asyncio.TaskGroup() as group:
            for session in sessions[1:]:
                group.create_task(session.reset(TASK, Seed(0)))
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(_steps(session, WARM_UP))
        all_of_them = await _megabytes()
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                group.create_task(_steps(session, STEPS))
        rate = CONTEXTS * STEPS / (time.perf_counter() - started)
    finally:
        for session in sessions:
            await session.close()
        await asyncio.wrap_future(in_background(browser_pool().close()))
    return {
        "browser_step_ms_p50": 1000 * statistics.median(alone),
        "browser_16_steps_per_s": rate,
        "browser_context_mb": (all_of_them - one) / (CONTEXTS - 1),
    }


async def _steps(session: BrowserSession, count: int) -> list[float]:
    """Walk between the office's pages and fill in a form; return the seconds of each step."""
    seconds: list[float] = []
    page = View((await session.read()).observation)
    for number in range(count):
        started = time.perf_counter()
        match number % 4:
            case 0:
                step = await session.click(page.get("Request", "link").id)
            case 1:
                step = await session.type(page.get("For whom", "textbox").id, "Ada")
            case 2:
                step = await session.click(page.get("Urgent", "checkbox").id)
            case _:
                step = await session.click(page.get("Staff", "link").id)
        seconds.append(time.perf_counter() - started)
        page = View(step.observation)
    return seconds


async def _megabytes() -> float:
    """Return the memory of all processes of all browsers."""
    total = 0.0
    for browser in browser_pool().browsers:
        found = await asyncio.wrap_future(in_background(browser.process_ids()))
        total += sum(proportional_mb(pid) for pid in found)
    return total


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"  {name:32} {value:10.4g}")
