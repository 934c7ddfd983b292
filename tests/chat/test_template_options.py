"""Variables of a chat template can be set wherever a model is named, and are kept with the run."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from agentfly import Agent, Source
from agentfly.chat import ByteTokenizer, TemplateRenderer
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.config import RunSettings
from agentfly.config.sft_settings import SftSettings
from agentfly.config.toml_writer import to_toml
from agentfly.engines import ScriptedEngine
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.training.supervised import sft
from agentfly.training.task_mix import TaskMix, for_run
from agentfly.types import Message

SOURCE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    "{% endif %}"
)
QUESTION = [Message(role="user", content="?")]
OFF = {"enable_thinking": False}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    shutil.copytree(resolve_model("tiny-random"), made)
    (made / "chat_template.jinja").write_text(SOURCE)
    return made


def prompt(renderer: object) -> str:
    assert isinstance(renderer, TemplateRenderer)
    return renderer.decode(renderer.open(QUESTION, []))


def test_a_renderer_of_a_folder_takes_them(folder: Path) -> None:
    assert not prompt(TemplateRenderer.from_folder(folder)).endswith("</think>")
    renderer = TemplateRenderer.from_folder(folder, template_options=OFF)
    assert prompt(renderer).endswith("<think></think>")
    assert prompt(renderer.with_format(renderer.call_format)).endswith("<think></think>")


def test_a_bare_template_takes_them() -> None:
    assert prompt(bare_renderer(SOURCE, template_options=OFF)).endswith("<think></think>")


@pytest.mark.parametrize("name", ["enable_thinkng", "messages", "date"])
def test_what_the_template_does_not_read_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=f"no option '{name}'.*enable_thinking"):
        TemplateRenderer.from_folder(folder, template_options={name: False})


def test_an_agent_takes_them_for_a_model_that_it_is_given_by_name(folder: Path) -> None:
    agent = Agent(folder, template_options=OFF)
    assert prompt(agent.model.renderer).endswith("<think></think>")
    with pytest.raises(ConfigError, match="are for the template of a model that is named"):
        Agent(ScriptedEngine(["x"], tokenizer=ByteTokenizer()), template_options=OFF)


def test_a_run_takes_them_from_its_settings_and_keeps_them(folder: Path) -> None:
    settings = RunSettings.model_validate(
        {"name": "run", "model": {"name": str(folder), "template_options": OFF}}
    )
    named = Source(agent=Agent(), tasks=[{"question": "?"}])
    (source,) = for_run(TaskMix(sources=(named,), tasks=()), settings).sources
    assert prompt(source.agent.model.renderer).endswith("<think></think>")
    kept = tomllib.loads(to_toml(settings))
    assert kept["model"]["template_options"] == OFF


def test_an_agent_of_a_run_has_the_options_that_are_kept_with_it(folder: Path) -> None:
    settings = RunSettings.model_validate({"name": "run", "model": {"name": str(folder)}})
    source = Source(agent=Agent(folder, template_options=OFF), tasks=[{"question": "?"}])
    with pytest.raises(ConfigError, match=r"enable_thinking.*give the same in both places"):
        for_run(TaskMix(sources=(source,), tasks=()), settings)


def test_a_warm_start_takes_them_from_its_settings(folder: Path) -> None:
    row = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    (folder / "data.jsonl").write_text(f"{json.dumps(row)}\n" * 2)
    settings = SftSettings.model_validate(
        {
            "name": "run",
            "model": {"name": str(folder), "template_options": OFF},
            "data": {"files": [str(folder / "data.jsonl")]},
        }
    )
    sample, *_ = sft._demonstrations(settings, resolve_model(settings.model.name), None).train
    text = TemplateRenderer.from_folder(folder).decode(sample.token_ids)
    assert text.startswith("<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n<think></think>!")
