from random import Random

from agentfly import Agent, Task
from agentfly.environments import PlayerModel
from agentfly.environments.search import SEARCH, SearchOptions

kit = SEARCH.make(SearchOptions(hops=(1, 2), short=True, k=1, num_tasks=100, num_eval_tasks=20))

row = next(iter(kit.eval_tasks()))
print(row["question"], "→", row["answer"])

# The expert reads what the tool shows it and follows the facts, through the same loop as a model.
expert = PlayerModel(player=kit.expert, task=Task.from_row(row), random=Random(0))
agent = Agent(expert, tools=kit.tools, reward=kit.reward, system_prompt=kit.system_prompt)
(trajectory,) = agent.run_sync([row]).trajectories
assert trajectory.score.parts == {"em": 1.0, "f1": 1.0, "format": 1.0, "hit": 1.0}
