"""The folder of a trained model holds what its scores were measured with."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.observe.finished_groups import scored
from tests.observe.recorded_runs import CONFIG, record_run
from typer.testing import CliRunner

from agentfly.agents.kind import WorkedExample
from agentfly.agents.trial_file import Trial, read_trials, write_trials
from agentfly.cli.main import app
from agentfly.evaluation.checkpoint_names import NamedCheckpoints
from agentfly.evaluation.hub_export import export_to_hub
from agentfly.evaluation.model_card import card
from agentfly.models import resolve_model
from agentfly.observe.recorded_run import RecordedRun
from agentfly.tasks import load_tasks
from agentfly.types import Message

EXAMPLE = WorkedExample(
    messages=(
        Message(role="user", content="What is ```52*95```?"),
        Message(role="assistant", content="It is 4940."),
    ),
    task_id="52*95",
)
SOURCE = """
rollout.max_turns = 3
rollout.max_tokens = 48
eval.temperature = 0.5
[[source]]
name = "default"
kind = "tools"
tools = ["calculator"]
system_prompt = "Be brief, it's late."
"""


def recorded(folder: Path, config: str = CONFIG + SOURCE) -> RecordedRun:
    evaluations = {0: [scored("a", 0.0)], 4: [scored("a", 1.0)]}
    return RecordedRun(record_run(folder, config=config, evaluations=evaluations))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("card")
    run = recorded(home / "demo")
    write_trials(
        run.path / "example.json", {"default": Trial(chains=16, calling=0, example=EXAMPLE)}
    )
    found = NamedCheckpoints(run=run, folders={4: str(resolve_model("tiny"))})
    return export_to_hub(found, home / "hub")


def fenced(text: str, language: str) -> str:
    found = re.search(rf"^(`{{3,}}){language}\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)
    assert found, text
    return found[2]


def test_the_folder_has_the_worked_example(hub: Path) -> None:
    text = (hub / "README.md").read_text()
    assert "measured with a worked example before every conversation" in text
    shown = fenced(text, "json").splitlines()
    assert len(shown) == 2
    assert "What is ```52*95```?" in shown[0]
    assert read_trials(hub / "example.json")["default"].example == EXAMPLE
    assert "temperature 0.5, max turns 3, max tokens 48" in text


def test_the_command_of_the_card_has_options_that_exist(hub: Path) -> None:
    words = shlex.split(fenced((hub / "README.md").read_text(), "bash"))
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--system"] == "Be brief, it's late."
    (row,) = load_tasks(options["--examples"].replace("FOLDER", str(hub)))
    assert tuple(row.messages) == EXAMPLE.messages
    known = CliRunner().invoke(app, ["chat", "--help"], env={"COLUMNS": "200"}).output
    assert [option for option in options if option not in known] == []


def test_the_code_of_the_card_makes_the_agent(hub: Path) -> None:
    code = fenced((hub / "README.md").read_text(), "python")
    made: dict[str, Any] = {}
    exec(code.replace("FOLDER", str(hub)), made)
    agent = made["agent"]
    assert agent.kind.example == EXAMPLE
    assert agent.kind.system_prompt == "Be brief, it's late."
    assert [tool.spec.name for tool in agent.tools] == ["calculator"]


@pytest.mark.parametrize(
    ("model", "lines"),
    [
        ("tiny", ["license: apache-2.0"]),
        (
            "smollm2-135m-instruct",
            ["base_model: HuggingFaceTB/SmolLM2-135M-Instruct", "license: apache-2.0"],
        ),
        ("someone/else", ["base_model: someone/else"]),
    ],
)
def test_base_and_license_are_named_where_they_are_known(
    tmp_path: Path, model: str, lines: list[str]
) -> None:
    run = recorded(tmp_path / "demo", CONFIG.replace("tiny", model))
    header = "\n".join(card(run, 4, has_curve=False)).split("---")[1].splitlines()
    assert [line for line in header if line.startswith(("base_model", "license"))] == lines


def test_no_folder_of_this_machine_is_named(tmp_path: Path) -> None:
    source = f'[[source]]\ntasks = "{tmp_path}/sums.jsonl"\ntools = ["calculator", "a:b"]\n'
    config = CONFIG.replace("tiny", f"{tmp_path}/warm") + source
    about, _ = "\n".join(card(recorded(tmp_path / "r", config), 4, has_curve=False)).split(
        "## Settings"
    )
    assert "`warm`, trained by" in about
    assert "tasks `sums.jsonl`, tools `calculator`, `a:b`" in about
    assert str(tmp_path) not in about


def test_without_an_example_none_is_promised(tmp_path: Path) -> None:
    assert "worked example" not in "\n".join(card(recorded(tmp_path / "r"), 4, has_curve=False))
