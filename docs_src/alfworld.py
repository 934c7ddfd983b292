"""A room of text: played by its expert, and step by step."""

from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel
from agentfly.environments.alfworld import ALFWORLD, Alfworld, AlfworldOptions
from agentfly.types import Seed

# An easy subset: small rooms, one kind of task, the possible commands shown at every step.
easy = AlfworldOptions(size="small", task_types=("pick_and_place_simple",), show_commands=True)
kit = ALFWORLD.make(easy)
row = next(iter(kit.tasks()))

# The built-in environment, played by its expert, which sees what a model sees.
expert = PlayerModel(player=kit.expert, task=Task.from_row(row), random=Random(0))
agent = Agent(expert, tools=kit.tools, reward=kit.reward, environment=kit.environment)
(trajectory,) = agent.run_sync([row]).trajectories
assert trajectory.reward == 1.0
for turn in trajectory.turns:
    print(">", turn.message.tool_calls[0].arguments)
    print(turn.results[0].observation)

# The environment by itself. Each step is rewarded for the share of the way that it goes.
room = Alfworld(subgoals=True)
print(room.reset(Task.from_row(row), Seed(0)).observation)
step = room.step(room.commands()[0])
assert step.reward == 0.0
assert not step.done
