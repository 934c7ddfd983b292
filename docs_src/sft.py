import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from agentfly import Agent, RunResult, SamplingParams
from agentfly.config import ModelSettings
from agentfly.config.sft_settings import SftDataSettings, SftSettings, SftTrainSettings
from agentfly.rewards import numeric_match
from agentfly.tools import calculator
from agentfly.training.supervised.best_of import sample_best
from agentfly.training.supervised.sft import sft

ROWS = [{"question": f"What is {a}*{a + 9}?", "answer": str(a * (a + 9))} for a in range(13, 17)]


async def good_chains() -> RunResult:
    """Let the model try each question six times, and keep its best right chain."""
    agent = Agent(
        "tiny",
        tools=[calculator],
        reward=numeric_match(),
        system_prompt="Use the calculator to answer.",
        sampling=SamplingParams(max_tokens=48),
    )
    async with agent:
        return await sample_best(agent, ROWS, num_chains=6, keep=1, min_reward=1.0)


with TemporaryDirectory() as folder:
    kept = asyncio.run(good_chains())
    kept.save(Path(folder) / "good.jsonl")
    settings = SftSettings(
        name="warm",
        folder=Path(folder),
        model=ModelSettings(name="tiny"),
        data=SftDataSettings(files=("good.jsonl",), held_out_share=0.0),
        train=SftTrainSettings(epochs=2, conversations_per_step=2, lr=1e-4),
    )
    result = sft(settings, base=Path(folder))
    assert (result.model / "config.json").exists()  # a name for `model.name`, or for Agent(...)
