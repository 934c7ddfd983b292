"""MiniWoB's pages in a real Chromium: every task has an instruction."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from agentfly.environments.browser import BrowserOptions, BrowserSession
from agentfly.environments.browser.sites.miniwob import task_names
from agentfly.environments.browser.tasks import training_rows
from agentfly.types import Seed, Task

pytestmark = pytest.mark.browser

AT_ONCE = 4
TEMPLATES = ("email-inbox-forward-nl", "email-inbox-forward-nl-turk", "email-inbox-nl-turk")
"""Tasks whose pages give the slots of a template besides the instruction."""


async def instructions(tasks: Iterable[str]) -> Mapping[str, str]:
    """Begin an episode of each task; return what its first page asks for, or its failure."""
    found: dict[str, str] = {}
    rows = iter(training_rows(BrowserOptions(tasks=tuple(tasks), episodes=1)))

    async def begin_rows() -> None:
        session = BrowserSession()
        for row in rows:
            step = await session.reset(Task.from_row(row), Seed(0))
            found[row["task"]] = step.observation.partition("\n")[0].removeprefix("Task: ")
        await session.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(begin_rows())
    return found


async def test_a_task_made_from_a_template_has_an_instruction_in_words() -> None:
    for task, text in (await instructions(TEMPLATES)).items():
        assert text[:1].isalpha(), f"{task}: {text!r}"
        assert "fields" not in text, f"{task}: {text!r}"


@pytest.mark.slow
async def test_every_task_has_an_instruction() -> None:
    found = await instructions(task_names())
    assert found.keys() == set(task_names())
    assert [task for task, text in found.items() if len(text.split()) < 2] == []
