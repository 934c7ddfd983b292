"""Exported turns render, with the run's own tokenizer, as what the model was shown and wrote."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.observe.recorded_runs import CONFIG, record_run
from transformers import AutoTokenizer
from typer.testing import CliRunner

from agentfly import Agent, reward
from agentfly.chat import TemplateRenderer
from agentfly.chat.mask import all_sampled
from agentfly.cli.main import app
from agentfly.config.sft_settings import SftDataSettings
from agentfly.engines import ScriptedEngine
from agentfly.models import resolve_model
from agentfly.tools import calculator
from agentfly.training.supervised.demonstrations import read_demonstrations
from agentfly.types import Seed

PLAIN = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""A template that renders neither tools nor calls, as SmolLM2's."""
JSON = '{"name": "calculator", "arguments": {"expression": "6*7"}}'


@dataclass(frozen=True)
class Case:
    kind: str
    plain: bool
    said: tuple[str, str]


TAGS = Case("tags", plain=False, said=("<calculator>6*7</calculator>", "<answer>42</answer>"))
TAUGHT = Case("tools", plain=True, said=(f"{JSON}<|im_end|>", "42<|im_end|>"))
NATIVE = Case(
    "tools",
    plain=False,
    said=(f"<tool_call>\n{JSON}\n</tool_call><|im_end|>", "42<|im_end|>"),
)


@reward
def is_right(final_response: str) -> float:
    """Score the answer."""
    return float(final_response == "42")


@dataclass(frozen=True)
class Recorded:
    run: Path
    text: str
    """What the model was shown and wrote in the best chain."""

    @property
    def model(self) -> Path:
        return self.run / "model"

    def exported(self, format: str) -> Path:
        out = self.run / f"{format}.jsonl"
        done = CliRunner().invoke(
            app, ["export", str(self.run), "--format", format, "--out", str(out)]
        )
        assert (done.exit_code, done.stderr) == (0, ""), done.output
        return out

    def row(self, format: str) -> dict[str, Any]:
        (line,) = self.exported(format).read_text().splitlines()
        return dict(json.loads(line))

    def rendered(self, messages: list[Any], tools: list[Any]) -> str:
        tokenizer = AutoTokenizer.from_pretrained(self.model)
        return str(tokenizer.apply_chat_template(messages, tools=tools or None, tokenize=False))


async def record(folder: Path, case: Case) -> Recorded:
    model = folder / "demo" / "model"
    files = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    kept = {name: (resolve_model("tiny") / name).read_bytes() for name in files}
    if case.plain:
        kept["chat_template.jinja"] = PLAIN.encode()
    made = folder / "tokenizer"
    made.mkdir()
    for name, content in kept.items():
        (made / name).write_bytes(content)
    renderer = TemplateRenderer.from_folder(made)
    engine = ScriptedEngine(
        lambda turn: (
            case.said[turn.request.turn]
            if turn.request.chain_id.endswith("/0")
            else "No.<|im_end|>"
        ),
        tokenizer=renderer.tokenizer,
    )
    agent = Agent(engine, renderer=renderer, tools=[calculator], kind=case.kind, reward=is_right)
    result = await agent.run("What is 6*7?", num_chains=2)
    config = f'{CONFIG}[[source]]\nname = "default"\nkind = "{case.kind}"\n'
    run = record_run(folder / "demo", steps={1: result.groups}, config=config)
    shutil.copytree(made, model)
    (stream,) = result.trajectories[0].streams
    return Recorded(run, renderer.decode(stream.token_ids))


@pytest.mark.parametrize("case", [TAGS, TAUGHT, NATIVE], ids=["tags", "taught", "native"])
async def test_rows_render_as_the_chain_was(tmp_path: Path, case: Case) -> None:
    recorded = await record(tmp_path, case)
    row = recorded.row("sft")
    text = recorded.rendered(row["messages"], row["tools"])
    assert case.said[0].removesuffix("<|im_end|>") in text
    assert text.startswith(recorded.text)
    assert ("tool_calls" in row["messages"][-3], bool(row["tools"])) == (case is NATIVE,) * 2
    pair = recorded.row("dpo")
    assert recorded.rendered([*pair["prompt"], *pair["chosen"]], pair["tools"]) == text
    assert [message["content"] for message in pair["rejected"]] == ["No."]


@pytest.mark.parametrize("case", [TAGS, TAUGHT, NATIVE], ids=["tags", "taught", "native"])
async def test_a_warm_start_learns_what_the_chain_was(tmp_path: Path, case: Case) -> None:
    recorded = await record(tmp_path, case)
    renderer = TemplateRenderer.from_folder(recorded.model)
    (sample,) = read_demonstrations(
        SftDataSettings(files=(str(recorded.exported("sft")),), held_out_share=0.0),
        renderer,
        mask=all_sampled,
        max_tokens=1000,
        seed=Seed(0),
    ).train
    assert renderer.decode(sample.token_ids).removesuffix("<|im_end|>") == (
        recorded.text.removesuffix("<|im_end|>")
    )


async def test_without_the_tokenizer_it_is_said_what_rows_lack(tmp_path: Path) -> None:
    recorded = await record(tmp_path, TAUGHT)
    shutil.rmtree(recorded.model)
    config = recorded.run / "config.toml"
    config.write_text(config.read_text().replace('"tiny"', '"./gone"'))
    done = CliRunner().invoke(app, ["export", str(recorded.run)])
    assert done.exit_code == 0
    assert "a chat template that renders no tool calls shows them empty" in done.stderr
    assert "tool_calls" in (recorded.run / "sft.jsonl").read_text()
