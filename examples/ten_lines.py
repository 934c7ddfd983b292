"""A whole run in ten lines: `python examples/ten_lines.py` leaves it in runs/ten_lines."""

import agentfly as af
from agentfly.rewards import numeric_match
from agentfly.tools import calculator

rows = [{"question": f"What is {a}*97?", "answer": str(a * 97)} for a in range(11, 99)]
agent = af.Agent(tools=[calculator], reward=numeric_match(), max_turns=3)
model, train = af.ModelSettings(name="tiny"), af.TrainSettings(steps=20, lr=3e-4)
rollout = af.RolloutSettings(tasks_per_step=8, num_chains=8, max_tokens=48)
run = af.RunSettings(name="ten_lines", model=model, rollout=rollout, train=train)
result = af.Trainer(af.Source(agent=agent, tasks=rows), run).run()
print("reward:", [round(step.metrics["reward/mean"], 2) for step in result.metrics])
