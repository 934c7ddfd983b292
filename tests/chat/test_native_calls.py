"""Calls as real templates write them, against a table that was written by hand.

Renderings are by transformers' own Jinja; a completion is what a model would have sampled behind
the generation prompt, up to and with the token that ends its turn.
"""

import json
import re
from functools import cache
from typing import Any

import pytest
from benchmarks.template_files import real_templates
from benchmarks.template_truth import CALLS, DESCRIBED, FIRST, FORMAT_OF, IDS, NAME, SECOND, TOOL
from tests.some_now import some_now

from agentfly.chat import TemplateRenderer
from agentfly.chat.template_check.bare_template import BOS, EOS, bare_renderer
from agentfly.types import Completion, FinishReason, Message, ToolSpec

TEMPLATES = real_templates()
SPEC = ToolSpec(
    name=NAME,
    description=TOOL["function"]["description"],
    parameters=TOOL["function"]["parameters"],
)
CALLING = sorted(name for name in TEMPLATES if FORMAT_OF.get(name))
TWICE = [name for name in CALLING if CALLS[str(FORMAT_OF[name])].two]
HALF_A_MARK = re.compile(r"[<\[][^<>\[\]\s]*\Z")


@cache
def renderer_of(name: str) -> TemplateRenderer:
    return bare_renderer(TEMPLATES[name].read_text(encoding="utf-8"))


def rendered(name: str, messages: list[dict[str, Any]], *, prompt: bool = False) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    rendering: Any = render_jinja_template(
        conversations=[messages],
        tools=[TOOL],
        chat_template=TEMPLATES[name].read_text(encoding="utf-8"),
        add_generation_prompt=prompt,
        bos_token=BOS,
        eos_token=EOS,
    )
    return str(rendering[0][0])


def turn_text(name: str, calls: list[dict[str, Any]]) -> str:
    """Return a turn that makes these calls, from where its generation prompt ends."""
    capabilities = renderer_of(name).capabilities
    user = capabilities.write(Message(role="user", content="How is the weather?"))
    shown = [json.dumps(c) if capabilities.string_arguments else c for c in calls]
    turn = {
        "role": "assistant",
        "content": None if capabilities.null_content else user["content"][:0],
        "tool_calls": [
            {"id": id_, "type": "function", "function": {"name": NAME, "arguments": arguments}}
            for id_, arguments in zip(IDS, shown, strict=False)
        ],
    }
    prompt, text = rendered(name, [user], prompt=True), rendered(name, [user, turn])
    shared = next((i for i, (a, b) in enumerate(zip(prompt, text, strict=False)) if a != b), None)
    if shared is None:
        return text[len(prompt) :]
    half = HALF_A_MARK.search(text[:shared])
    return text[half.start() if half else shared :]


def completion(name: str, text: str) -> Completion:
    renderer = renderer_of(name)
    ids = renderer.tokenizer.encode(text)
    ends = [i for i, token in enumerate(ids) if token in renderer.stop_token_ids]
    ids = ids[: ends[0] + 1] if ends else ids
    return Completion(
        token_ids=tuple(ids),
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )


def read_back(name: str, text: str) -> list[tuple[str, object]]:
    message = renderer_of(name).parse(completion(name, text), [SPEC]).message
    assert not any(call.problem or call.repaired for call in message.tool_calls)
    assert not message.content
    assert not message.reasoning
    return [(call.name, json.loads(call.arguments)) for call in message.tool_calls]


def test_the_table_knows_every_template_at_hand() -> None:
    assert TEMPLATES.keys() <= FORMAT_OF.keys()


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_format_is_the_one_in_the_table(name: str) -> None:
    choice = renderer_of(name).format_choice
    expected = FORMAT_OF[name] or DESCRIBED.get(name)
    assert choice.format.name == (expected or "json")
    assert (choice.source == "fallback") == (expected is None)
    assert bool(choice.reason) == (expected is None)
    assert (choice.source == "tool prompt") == (name in DESCRIBED)


@pytest.mark.parametrize("name", CALLING)
def test_one_call_is_read_back_as_the_template_writes_it(name: str) -> None:
    text = turn_text(name, [FIRST])
    assert CALLS[str(FORMAT_OF[name])].one in text, "the table is wrong about this template"
    assert read_back(name, text) == [(NAME, FIRST)]
    assert renderer_of(name).format_choice.one_call


@pytest.mark.parametrize("name", some_now(TWICE, every=3))
def test_two_calls_are_read_back_as_the_template_writes_them(name: str) -> None:
    text = turn_text(name, [FIRST, SECOND])
    assert (CALLS[str(FORMAT_OF[name])].two or "") in text, "the table is wrong"
    assert read_back(name, text) == [(NAME, FIRST), (NAME, SECOND)]
    assert renderer_of(name).format_choice.two_calls
