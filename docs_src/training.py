import tempfile
from pathlib import Path

from agentfly import Agent, SamplingParams, Source, Trainer, reward
from agentfly.config import RunSettings
from agentfly.tools import calculator


@reward
def correct(final_response: str, answer: str) -> bool:
    """The result is in the answer."""
    return answer in final_response


rows = [{"question": f"What is {a}*41?", "answer": str(a * 41)} for a in range(10, 40)]
agent = Agent(
    "tiny",
    tools=[calculator],
    reward=correct,
    system_prompt="Use the calculator to answer.",
    sampling=SamplingParams(max_tokens=48),
    max_turns=3,
)
settings = RunSettings.model_validate(
    {
        "name": "first",
        "folder": Path(tempfile.mkdtemp()),
        "model": {"name": "tiny"},
        "algorithm": {"name": "grpo"},
        "rollout": {"tasks_per_step": 2, "num_chains": 4},
        "train": {"steps": 2, "lr": 3e-4},
        "eval": {"num_chains": 2},
    }
)
source = Source(agent=agent, tasks=rows[4:], eval_tasks=rows[:4])
result = Trainer(source, settings).run()

print(result.stopped_by, result.checkpoint)
for record in result.metrics:
    print(record.step, record.metrics.get("reward/mean"), record.metrics.get("eval/reward"))
