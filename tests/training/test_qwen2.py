"""Qwen2 with Qwen2.5's own template: engine, learner, adapters and vLLM agree on every token."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.learner_cases import plain_logprobs
from tests.training.qwen_model import qwen_folder

from agentfly import Agent, Limits, SamplingParams, Source, reward
from agentfly.chat import TemplateRenderer
from agentfly.config import RunSettings
from agentfly.models import load_model
from agentfly.observe import RunProgress, read_trajectories
from agentfly.tools import calculator
from agentfly.training import Trainer, TrainResult
from agentfly.types import Trajectory

CLOSE = 1e-4
ROWS = [{"id": f"row{i}", "question": f"What is {i}+{i}?"} for i in range(4)]

needs_vllm = [
    pytest.mark.vllm,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        "AGENTFLY_VLLM_PYTHON" not in os.environ, reason="AGENTFLY_VLLM_PYTHON is not set"
    ),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qwen_folder(tmp_path_factory.mktemp("qwen2"))


@reward
def letters(final_response: str) -> float:
    """Differ from chain to chain, whatever random weights say."""
    return sum(map(ord, final_response)) % 97 / 97


def train(model: Path, runs: Path, **tables: Any) -> TrainResult:
    """Train two steps; engines that have weights of their own are compared after each."""
    settings = RunSettings.model_validate(
        {
            "name": "qwen",
            "folder": runs,
            "model": {"name": str(model), "precision": "float32", "lora": tables.pop("lora", None)},
            "engine": {"check_every": 1, "max_logprob_error": CLOSE, **tables.pop("engine", {})},
            "learner": tables.pop("learner", {}),
            "rollout": {"tasks_per_step": 2, "num_chains": 3, "context_length": 1024},
            "train": {"steps": 2, "lr": 1e-2},
            "eval": {"every": 0, "at_start": False, "at_end": False},
            "track": {"trackers": []},
        }
    )
    agent = Agent(
        str(model),
        tools=[calculator],
        reward=letters,
        sampling=SamplingParams(max_tokens=24),
        limits=Limits(max_turns=2, context_length=1024),
    )
    source = Source(agent=agent, tasks=ROWS)
    return Trainer(source, settings, progress=RunProgress(quiet=True)).run()


def first_step(result: TrainResult) -> list[Trajectory]:
    return list(read_trajectories(result.folder / "trajectories" / "step_1.jsonl"))


def require_exact(model: Any, chains: list[Trajectory]) -> None:
    """Compare what was recorded with one plain forward pass over each chain."""
    assert chains
    for chain in chains:
        for stream in chain.streams:
            turns = [turn.completion for turn in stream.turns if turn.completion is not None]
            recorded = [logprob for completion in turns for logprob in completion.logprobs]
            with torch.no_grad():
                expected = plain_logprobs(model, stream)
            assert recorded == pytest.approx(expected.tolist(), abs=CLOSE)


def require_same(result: TrainResult) -> None:
    """Compare what was recorded with the learner's own passes, at every step."""
    ratios = [
        record.metrics[f"train/mismatch/ratio_{which}"]
        for record in result.metrics
        for which in ("min", "max")
    ]
    assert len(ratios) == 4
    assert ratios == pytest.approx([1.0] * 4, abs=CLOSE)


def plain(folder: Path) -> Any:
    return load_model(folder, dtype=torch.float32, device="cpu")


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_the_local_engine_and_the_learner_agree(
    folder: Path, tmp_path: Path, lora: dict[str, int] | None
) -> None:
    result = train(folder, tmp_path, lora=lora)
    require_exact(plain(folder), first_step(result))
    require_same(result)
    prompt = first_step(result)[0].turns[0].context_ids
    said = TemplateRenderer.from_folder(folder).decode(prompt)
    assert said.startswith("<|im_start|>system\nYou are Qwen, created by Alibaba Cloud.")
    assert "<tools>" in said


@pytest.mark.parametrize(
    ("lora", "processes"),
    [
        pytest.param(None, 1, marks=needs_vllm, id="all weights"),
        pytest.param({"rank": 4}, 1, marks=needs_vllm, id="adapters"),
        pytest.param(None, 2, marks=needs_vllm, id="all weights of two learner processes"),
    ],
)
def test_vllm_agrees_too(
    folder: Path, tmp_path: Path, lora: dict[str, int] | None, processes: int
) -> None:
    result = train(
        folder, tmp_path, lora=lora, engine={"name": "vllm"}, learner={"processes": processes}
    )
    require_exact(plain(folder), first_step(result))
    require_same(result)
    assert not (result.folder / "published").exists()
