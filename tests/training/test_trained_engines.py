"""A run trains through whatever engine its settings name."""

from pathlib import Path
from typing import Any

import pytest
from tests.training.small_trainer import one_source, settings, train

from agentfly import Agent
from agentfly.config import EngineSettings, RunSettings
from agentfly.engines import EngineSpec
from agentfly.engines.local import LocalEngine
from agentfly.engines.local.engine import make_local
from agentfly.observe import read_trajectories
from agentfly.training import Trainer, TrainResult

STEPS = 3


def chosen(folder: Path, **engine: Any) -> RunSettings:
    return settings(
        folder,
        deterministic=True,
        engine=engine,
        train={"steps": STEPS, "lr": 1e-2},
        eval={"every": 0, "at_start": False, "at_end": False},
    )


def tokens(result: TrainResult) -> list[Any]:
    files = [result.folder / "trajectories" / f"step_{n}.jsonl" for n in range(1, STEPS + 1)]
    chains = [chain for file in files for chain in read_trajectories(file)]
    return sorted(
        (chain.chain_id, turn.completion.token_ids, turn.completion.versions)
        for chain in chains
        for turn in chain.turns
        if turn.completion is not None
    )


@pytest.fixture(scope="module")
def through_one(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return tokens(train(one_source(), chosen=chosen(tmp_path_factory.mktemp("one"))))


def test_weights_that_go_by_folders_give_the_same_chains(
    tmp_path: Path, through_one: list[Any]
) -> None:
    name = "tests.training.folder_engine:make_folder_engine"
    options = {"name": name, "options": {"deterministic": True}}
    result = train(one_source(), chosen=chosen(tmp_path, **options))
    assert tokens(result) == through_one
    assert not (result.folder / "published").exists()


class KilledError(RuntimeError):
    """What the thread of an engine dies of."""


class Doomed:
    """Makes replicas of which the second dies in the middle of the run."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.killed = False

    def __call__(self, spec: EngineSpec) -> LocalEngine:
        engine = make_local(spec)
        if spec.replica == 1:
            step = engine._core.step

            def dying() -> None:
                self.steps -= 1
                if self.steps < 0:
                    self.killed = True
                    raise KilledError("by the test")
                step()

            engine._core.step = dying  # type: ignore[method-assign]
        return engine


def test_two_replicas_train_as_one_does_though_one_is_killed(
    tmp_path: Path, through_one: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    doomed = Doomed(steps=8)
    result = train(one_source(), chosen=chosen(tmp_path, replicas=2), engine=doomed)
    assert doomed.killed
    assert tokens(result) == through_one
    assert "replica 1" in caplog.text


def test_a_mistake_in_the_table_is_reported_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"engine\.name: a vLLM server can't be deterministic"):
        Trainer(one_source(), chosen(tmp_path, name="vllm", urls=["http://localhost:1"]))
    assert not (tmp_path / "small").exists()


def test_a_function_that_makes_engines_is_given_the_options_of_the_table(tmp_path: Path) -> None:
    with_options = chosen(tmp_path, options={"threads": 1})
    assert Trainer(one_source(), with_options, engine=make_local).parts.engine is make_local
    with pytest.raises(ValueError, match=r"engine\.options: is for engines of your own"):
        Trainer(one_source(), with_options)


def test_an_agent_refuses_settings_that_its_engine_would_ignore() -> None:
    with pytest.raises(ValueError, match=r"engine\.gpus: is for the engine 'vllm'"):
        Agent("tiny", engine=EngineSettings(gpus=(0,)))
    with pytest.raises(ValueError, match="unknown engine 'vlm'"):
        Agent("tiny", engine=EngineSettings(name="vlm"))
