"""The agent of a run is used afterwards as it was trained: with its tools, kind and examples."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentfly.agents.kind import Tags, WorkedExample
from agentfly.agents.trained_agent import TrainedAgent, find_trained
from agentfly.agents.trial_file import Trial
from agentfly.config import RunSettings, to_toml
from agentfly.errors import ConfigError
from agentfly.observe.run_folder import RunFolder
from agentfly.training.checkpoint import Checkpoints
from agentfly.types import Message

EXAMPLE = [
    {"role": "user", "content": "How many of part 1 are there?"},
    {"role": "assistant", "content": "<lookup>1</lookup>"},
]


def a_run(folder: Path, **source: Any) -> Path:
    """Write a run of a tool of the user's own, in the folder of its module and tasks."""
    module = re.sub(r"\W", "_", folder.name)  # one process imports a module's name only once
    (folder / f"{module}.py").write_text(
        "from agentfly import tool\n\n\n@tool\ndef lookup(part: int) -> int:\n"
        '    """Look up a part."""\n    return part\n'
    )
    rows = [{"messages": [*EXAMPLE, {"role": "user", "content": f"{n}?"}]} for n in range(3)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    chosen = {"tasks": "rows.jsonl", "tools": [f"{module}:lookup"], "reward": "exact_match"}
    settings = RunSettings.model_validate(
        {"name": "shop", "model": {"name": "tiny"}, "source": [{**chosen, **source}]}
    )
    with RunFolder.create(folder / "shop", config=to_toml(settings), base=folder) as run:
        checkpoints = Checkpoints(run.checkpoints_folder)
        for step in (1, 4):
            checkpoints.save(step, lambda part: (part / "weights").touch())
    return folder / "shop"


def found(name: str | Path) -> TrainedAgent:
    trained = find_trained(str(name))
    assert trained is not None
    return trained


def test_a_run_and_its_checkpoints_know_kind_tools_and_the_examples_of_their_tasks(
    tmp_path: Path,
) -> None:
    run = a_run(tmp_path, kind="tags", system_prompt="Look it up.")
    trained = found(run)
    assert trained.model == run / "checkpoints" / "step_4"
    parts = trained.parts(None)
    assert [tool.spec.name for tool in parts.tools] == ["lookup"]
    assert isinstance(parts.kind, Tags)
    assert parts.system_prompt == "Look it up."
    assert [message.to_dict() for message in trained.opening(None)] == EXAMPLE
    earlier = run / "checkpoints" / "step_1"
    assert found(earlier).model == earlier


def test_the_example_that_the_trial_found_is_shown_too(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    example = WorkedExample(messages=(Message(role="user", content="a"),), task_id="7")
    trial = Trial(chains=16, calling=0, example=example).to_json()
    (run / "example.json").write_text(json.dumps({"sources": {"default": trial}}))
    assert [m.content for m in found(run).opening(None)] == [
        "a",
        *(message["content"] for message in EXAMPLE),
    ]


def test_a_run_is_found_by_its_name_and_other_models_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    a_run(tmp_path).rename(tmp_path / "runs" / "shop")
    monkeypatch.chdir(tmp_path)
    assert found("shop").model == Path("runs/shop/checkpoints/step_4")
    assert find_trained("tiny") is None
    assert find_trained(str(tmp_path)) is None


def test_an_unknown_source_and_a_run_made_in_python_are_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    with pytest.raises(ConfigError, match="unknown source 'shopp'"):
        found(run).parts("shopp")
    settings = RunSettings.model_validate({"name": "made", "model": {"name": "tiny"}})
    with RunFolder.create(tmp_path / "made", config=to_toml(settings)) as folder:
        Checkpoints(folder.checkpoints_folder).save(1, lambda part: (part / "w").touch())
    with pytest.raises(ConfigError, match="made in Python"):
        found(tmp_path / "made").parts(None)


def test_a_run_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    config = to_toml(RunSettings.model_validate({"name": "x", "model": {"name": "tiny"}}))
    RunFolder.create(tmp_path / "new", config=config).close()
    with pytest.raises(ConfigError, match="no checkpoint yet"):
        find_trained(str(tmp_path / "new"))
