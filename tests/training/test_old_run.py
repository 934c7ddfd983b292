"""A run of an earlier version: its files are read, and it is resumed from its checkpoint.

`old_run.tar.gz` is the folder that commit 82c00c2 left after two steps of PPO on adapters of
`tiny-random`, complete but for the lock and the merged copy of the model. It was written by

    Trainer(Source(agent=agent(), tasks=ROWS[:4], eval_tasks=HELD_OUT), settings).run()

with the agent and the rows of `small_trainer`, and the settings in its config.toml. Since then an
option of PPO, `normalise`, was renamed, and the learner's state has moved to a file of its own.
"""

import tarfile
from pathlib import Path

import pytest
import torch
from tests.training.small_trainer import HELD_OUT, ROWS, agent, train

from agentfly import Source
from agentfly.algorithms import make_algorithm
from agentfly.config import RunSettings
from agentfly.config.settings_file import read_toml, validated
from agentfly.config.sft_settings import SftDataSettings
from agentfly.observe import read_events, read_metrics, read_trajectories, write_report
from agentfly.training import Checkpoints
from agentfly.training.learner.policy import Policy

ARCHIVE = Path(__file__).with_name("old_run.tar.gz")


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "old_run"


def settings_of(run: Path) -> RunSettings:
    file = run / "config.toml"
    read = validated(RunSettings, read_toml(file), (), str(file))
    return read.model_copy(update={"folder": run.parent})


def test_its_settings_are_read_in_the_old_spelling(old_run: Path) -> None:
    assert "normalise = true" in (old_run / "config.toml").read_text()
    settings = settings_of(old_run)
    assert settings.algorithm.options == {"normalize": True, "discount": 0.99}
    algorithm = make_algorithm(settings.algorithm.name, settings.algorithm.options)
    assert (algorithm.name, algorithm.critic is not None) == ("ppo", True)
    assert settings.model.lora is not None
    assert (settings.train.steps, settings.train.lr, settings.model.lora.rank) == (2, 1e-3, 1)


def test_the_settings_of_an_old_warm_start_are_read_too() -> None:
    old = SftDataSettings.model_validate({"files": ["a.jsonl"], "retokenise": True})
    assert old == SftDataSettings(files=("a.jsonl",), retokenize=True)


def test_its_chains_events_and_metrics_are_read(old_run: Path) -> None:
    chains = {
        name: list(read_trajectories(old_run / "trajectories" / f"{name}.jsonl"))
        for name in ("eval_0", "step_1", "step_2", "eval_2")
    }
    assert {name: len(found) for name, found in chains.items()} == {
        "eval_0": 2,
        "step_1": 4,
        "step_2": 4,
        "eval_2": 2,
    }
    assert all(chain.trainable for found in chains.values() for chain in found)
    records = read_metrics(old_run / "metrics.jsonl")
    assert [record.step for record in records] == [0, 1, 2, 2]
    rewards = [chain.reward for chain in chains["step_1"] if chain.reward is not None]
    assert records[1].metrics["reward/mean"] == pytest.approx(sum(rewards) / 4)
    assert len(list(read_events(old_run / "events.jsonl"))) > 4


def test_a_report_is_made_of_it(old_run: Path) -> None:
    records = read_metrics(old_run / "metrics.jsonl")
    report = write_report(old_run)
    assert report.reward_before == pytest.approx(records[0].metrics["eval/reward"])
    assert report.reward_after == pytest.approx(records[3].metrics["eval/reward"])


def test_it_is_resumed_where_it_stood(old_run: Path) -> None:
    settings = settings_of(old_run)
    saved = Checkpoints(old_run / "checkpoints").latest()
    assert saved is not None
    then = torch.load(saved.path / "trainer.pt", weights_only=True)["learner"]
    policy = Policy.load(settings.model, seed=settings.seed)
    fresh = [tensor.detach().clone() for tensor in policy.trained]
    policy.restore(saved.path)
    assert not all(map(torch.equal, fresh, policy.trained))
    longer = settings.model_copy(update={"train": settings.train.model_copy(update={"steps": 3})})
    source = Source(agent=agent(), tasks=ROWS[:4], eval_tasks=HELD_OUT)
    result = train(source, chosen=longer, resume=True)
    assert result.steps == 3
    assert [record.step for record in result.metrics if "reward/mean" in record.metrics] == [
        1,
        2,
        3,
    ]
    now = torch.load(result.checkpoint / "learner.pt", weights_only=True)
    assert (then["step"], now["step"]) == (2, 3)
    steps = [float(state["actor"]["state"][0]["step"]) for state in (then, now)]
    assert steps == [2.0, 3.0]
    assert "normalize = true" in (old_run / "config.toml").read_text()
