"""A whole run in ten lines: `python examples/ten_lines.py` leaves it in the folder runs/sums."""

import agentfly as af
from agentfly.rewards import numeric_match
from agentfly.tools import calculator

rows = [{"question": f"What is {a}*41?", "answer": str(a * 41)} for a in range(10, 90)]
agent = af.Agent(tools=[calculator], reward=numeric_match(), max_turns=3)
model = af.ModelSettings(name="tiny")
rollout = af.RolloutSettings(tasks_per_step=4, num_chains=4, max_tokens=48)
run = af.RunSettings(name="sums", model=model, rollout=rollout, train=af.TrainSettings(steps=2))
result = af.Trainer(af.Source(agent=agent, tasks=rows), run).run()
print(f"{result.steps} steps done. The model: {result.model}")
