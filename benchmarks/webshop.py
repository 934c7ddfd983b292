"""Speed of the shop in one process, and memory of a session.

Steps are random clicks of 500 sessions (without buying or going back to search), each at its own
location, with the usual caches; searches are new queries, including their page of results. All runs
in one thread that never waits, so seconds are processor time: other processes don't count.

    python -m benchmarks.webshop
"""

import time
import tracemalloc
from random import Random

from agentfly.environments.webshop import WebShop, WebShopOptions
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.shop import held_out_tasks, training_tasks
from agentfly.types import Seed, Task

STEPS = 60_000
SEARCHES = 3_000
SESSIONS = 1_000
WALKERS = 500
AIMS = {
    "webshop_steps_per_s": "20,000",
    "webshop_searches_per_s": "2,000",
    "webshop_session_kb": "a few",
}
_LEADS_AWAY = {Label.BACK_TO_SEARCH.lower(), Label.BUY.lower()}


def measure() -> dict[str, float]:
    """Return steps and searches per second, and kilobytes of a session."""
    tasks = [Task.from_row(row) for row in training_tasks(WebShopOptions())]
    others = [Task.from_row(row) for row in held_out_tasks(WebShopOptions())]
    return {
        "webshop_searches_per_s": _searches_per_second(tasks[:SEARCHES]),
        "webshop_repeated_searches_per_s": _searches_per_second(tasks[:SEARCHES]),
        "webshop_steps_per_s": _steps_per_second(others[:WALKERS]),
        "webshop_session_kb": _session_kilobytes(others[:SESSIONS]),
    }


def _started(task: Task) -> WebShop:
    session = WebShop()
    session.reset(task, Seed(0))
    return session


def _instruction(task: Task) -> str:
    return str(task.fields["instruction"])


def _searches_per_second(tasks: list[Task]) -> float:
    """Search for instructions, which all differ; each is about fifteen words long."""
    sessions = [_started(task) for task in tasks]
    started = time.process_time()
    for session, task in zip(sessions, tasks, strict=True):
        session.search(_instruction(task))
    return len(tasks) / (time.process_time() - started)


def _steps_per_second(tasks: list[Task]) -> float:
    random = Random(0)
    sessions = [_started(task) for task in tasks]
    for session, task in zip(sessions, tasks, strict=True):
        session.search(_instruction(task))
    spent = 0.0
    for number in range(STEPS):
        session = sessions[number % len(sessions)]
        possible = [label for label in session.page.clickables if label not in _LEADS_AWAY]
        action = f"click[{random.choice(possible)}]"
        started = time.process_time()
        session.step(action)
        spent += time.process_time() - started
    return STEPS / spent


def _session_kilobytes(tasks: list[Task]) -> float:
    """Return the memory of a session that has opened a product, without what sessions share."""
    for task in tasks:
        _open_a_product(_started(task), task)
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    sessions = [_open_a_product(_started(task), task) for task in tasks]
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / 1024 / len(sessions)


def _open_a_product(session: WebShop, task: Task) -> WebShop:
    session.search(_instruction(task))
    session.click(str(task.fields["asin"]))
    return session


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"  {name:32} {value:10.4g}")
