"""A page in Chromium: played by its expert, and step by step."""

import asyncio
from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel
from agentfly.environments.browser import BROWSER, BrowserOptions, BrowserSession
from agentfly.types import Seed

missing = BROWSER.requires()
if missing is not None:
    print(missing)  # what to install
    raise SystemExit

kit = BROWSER.make(BrowserOptions(tasks=("enter-text", "click-checkboxes"), episodes=20))
row = next(iter(kit.tasks()))
expert = PlayerModel(player=kit.expert, task=Task.from_row(row), random=Random(0))
agent = Agent(expert, tools=kit.tools, reward=kit.reward, environment=kit.environment)
(trajectory,) = agent.run_sync([row]).trajectories
assert trajectory.reward == 1.0


async def by_hand() -> None:
    session = BrowserSession()
    print((await session.reset(Task.from_row(row), Seed(0))).observation)
    print((await session.type(1, "hello")).observation)
    assert "There is no element 99" in (await session.click(99)).observation
    await session.close()


asyncio.run(by_hand())
