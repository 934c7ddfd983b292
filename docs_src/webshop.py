import asyncio
from itertools import islice
from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel
from agentfly.environments.webshop import WEBSHOP, WebShop, WebShopOptions
from agentfly.types import Seed

# A kit is the shop with its tasks, tools and reward, for one choice of options.
kit = WEBSHOP.make(WebShopOptions(level="easy", page_size=3))
row = next(iter(kit.eval_tasks()))

# A session by hand …
shop = WebShop(level="easy", page_size=3)
print(shop.reset(Task.from_row(row), Seed(0)).observation)
print(shop.step(f"search[{row['instruction']}]").observation)
print(shop.step("click[no such thing]").observation)


# … and the scripted expert, through the loop, the tools and the reward of any agent.
async def play(task: Task) -> float | None:
    expert = PlayerModel(player=kit.expert, task=task, random=Random(0))
    agent = Agent(expert, tools=kit.tools, reward=kit.reward, environment=kit.environment)
    (trajectory,) = (await agent.run([task.fields])).trajectories
    await agent.close()
    return trajectory.reward


tasks = [Task.from_row(row) for row in islice(kit.eval_tasks(), 5)]
rewards = [asyncio.run(play(task)) for task in tasks]
assert rewards == [1.0] * 5
