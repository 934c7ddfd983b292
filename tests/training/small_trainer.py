"""A run of training in this process, small enough to take a second."""

from pathlib import Path
from typing import Any

from agentfly import Agent, Limits, SamplingParams, Source, Trainer, reward
from agentfly.config import RunSettings
from agentfly.observe import RunProgress
from agentfly.training import TrainResult

ROWS = [{"id": f"row{i}", "question": f"Say {i}."} for i in range(6)]
HELD_OUT = [{"id": f"held{i}", "question": f"Say {i}!"} for i in range(2)]


@reward
def letters(final_response: str) -> float:
    """Differ from chain to chain."""
    return sum(letter in "aeiou" for letter in final_response) / 10


def agent(score: Any = letters, **options: Any) -> Agent:
    return Agent(
        "tiny-random",
        reward=score,
        sampling=SamplingParams(max_tokens=6),
        limits=Limits(max_turns=1),
        **options,
    )


def settings(folder: Path, **tables: Any) -> RunSettings:
    return RunSettings.model_validate(
        {
            "name": "small",
            "folder": folder,
            # The same chains on every machine: `auto` is bfloat16 where the hardware has it.
            "model": {"name": "tiny-random", "precision": "float32"},
            "rollout": {"tasks_per_step": 2, "num_chains": 3},
            "train": {"steps": 2, "lr": 1e-3},
            "eval": {"every": 1, "num_chains": 2},
            "track": {"trackers": []},
            **tables,
        }
    )


def train(
    *sources: Source, chosen: RunSettings, progress: RunProgress | None = None, **options: Any
) -> TrainResult:
    return Trainer(sources, chosen, progress=progress or RunProgress(quiet=True), **options).run()


def one_source(score: Any = letters) -> Source:
    return Source(agent=agent(score), tasks=ROWS, eval_tasks=HELD_OUT)
