"""An experiment in a house of text: played by its expert, and step by step."""

from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel
from agentfly.environments.scienceworld import SCIENCEWORLD, ScienceWorld, ScienceWorldOptions
from agentfly.types import Seed

# The easiest subset: teleport to the kitchen, focus on anything that isn't alive, put it in a box.
easy = ScienceWorldOptions(
    tasks=("find-non-living-thing",), simplifications=("easy",), helpers=False, max_turns=8
)
kit = SCIENCEWORLD.make(easy)
row = next(iter(kit.tasks()))

missing = SCIENCEWORLD.requires()
if missing is not None:
    print(missing)  # what to install
    raise SystemExit

expert = PlayerModel(player=kit.expert, task=Task.from_row(row), random=Random(0))
agent = Agent(expert, tools=kit.tools, reward=kit.reward, environment=kit.environment)
(trajectory,) = agent.run_sync([row]).trajectories
assert trajectory.reward == 1.0
for turn in trajectory.turns:
    print(">", turn.message.tool_calls[0].arguments)
    print(turn.results[0].observation)

# The environment by itself: each step is rewarded with what it changed of the score.
world = ScienceWorld(show=("inventory",))
print(world.reset(Task.from_row(row), Seed(0)).observation)
step = world.step("pick up pictur")
assert "Did you mean: pick up picture" in step.observation
assert step.reward == 0.0
world.close()
