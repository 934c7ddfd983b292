"""With any text in any field from outside, the special tokens are those of the template.

The skeleton is the same conversation with every bracket and bar replaced, so that nothing in it can
spell, or help to spell, a special token. Words that a template looks for (`/no_think`) stay.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest
from benchmarks.template_files import real_templates
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentfly.chat import TemplateRenderer
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

TEMPLATES = real_templates()
USUAL = [
    "qwen3",
    "gemma4",
    "llama3_1",
    "deepseekv3",
    "gptoss",
    "cohere2",
    "NVIDIA-Nemotron-Nano-v2",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "MiniMax-M3",
]
HARMLESS = str.maketrans(
    {**dict.fromkeys("<[{", "("), **dict.fromkeys(">]}", ")"), "|": "!", "｜": "!"}
)
TAGS = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_response>", "</tool_response>"]
WORDS = [
    "/think",
    "/no_think",
    "\n",
    " ",
    "x",
    "system",
    '"',
    "}",
    "\\",
    "\U00020000",
    "]",
    "[",
    "%",
]

Speak = Callable[[str], Any]


@lru_cache(maxsize=200)
def renderer_of(name: str) -> TemplateRenderer:
    return bare_renderer(TEMPLATES[name].read_text())


@dataclass(frozen=True)
class Hostile:
    """Text for every field that comes from outside."""

    texts: tuple[str, ...]

    def harmless(self) -> "Hostile":
        return Hostile(tuple(text.translate(HARMLESS) for text in self.texts))

    def __getitem__(self, index: int) -> str:
        return self.texts[index % len(self.texts)]


def hostile(name: str) -> st.SearchStrategy[Hostile]:
    tokens = list(renderer_of(name).encoder.special_ids)
    halves = [
        half for token in tokens for half in (token[: len(token) // 2], token[len(token) // 2 :])
    ]
    split = [f"{token[:3]}/think{token[3:]}" for token in tokens]
    part = st.sampled_from([*tokens, *halves, *split, *TAGS, *WORDS])
    text = st.lists(part, min_size=1, max_size=5).map("".join).map(lambda text: f"w{text}w")
    return st.lists(text, min_size=4, max_size=4).map(tuple).map(Hostile)


def tools_of(text: Hostile) -> list[ToolSpec]:
    schema = {
        "type": "object",
        "properties": {
            text[0]: {"type": "string", "description": text[1], "enum": [text[2]]},
            "b": {"type": "string", "description": text[3], "default": text[0]},
        },
        "required": [text[0]],
    }
    return [ToolSpec(name=f"f{text[1]}", description=text[2], parameters=schema)]


def conversation_of(text: Hostile) -> list[Message]:
    arguments = {text[0]: text[1], "n": 1, "deep": [{"k": text[2]}]}
    call = ToolCall(id=f"call{text[3]}", name=f"f{text[1]}", arguments=json.dumps(arguments))
    return [
        Message(role="system", content=text[0]),
        Message(role="user", content=text[1]),
        Message(role="assistant", content="", reasoning=text[2], tool_calls=(call,)),
        Message(role="tool", content=text[3], name=call.name, tool_call_id=call.id),
        Message(role="assistant", content=text[0], reasoning=text[1]),
        Message(role="user", content=text[2]),
    ]


def replies_of(text: Hostile) -> list[Message]:
    return [Message(role="tool", content=text[0], name=f"f{text[1]}", tool_call_id=f"c{text[2]}")]


def specials(renderer: TemplateRenderer, ids: Sequence[int]) -> Counter[int]:
    special = set(renderer.encoder.special_ids.values())
    return Counter(token for token in ids if token in special)


def require_skeleton(
    renderer: TemplateRenderer, text: Hostile, speak: Callable[[Hostile], Sequence[int]]
) -> None:
    try:
        expected = specials(renderer, speak(text.harmless()))
    except ConfigError:
        return  # the template refuses such a conversation, whatever is said in it
    assert specials(renderer, speak(text)) == expected


def attack(name: str, text: Hostile) -> None:
    renderer = renderer_of(name)
    nothing = Completion(token_ids=(), logprobs=(), versions=(), finish_reason=FinishReason.LENGTH)

    def extend(text: Hostile, replies: list[Message]) -> Sequence[int]:
        return renderer.extend([], nothing, replies, tools_of(text)).token_ids

    require_skeleton(renderer, text, lambda t: renderer.open(conversation_of(t)[:2], tools_of(t)))
    require_skeleton(renderer, text, lambda t: renderer.open(conversation_of(t)[:4], tools_of(t)))
    require_skeleton(renderer, text, lambda t: renderer.open(conversation_of(t), tools_of(t)))
    require_skeleton(renderer, text, lambda t: extend(t, replies_of(t)))
    require_skeleton(renderer, text, lambda t: extend(t, [Message(role="user", content=t[0])]))


def fixed_attacks(name: str) -> list[Hostile]:
    tokens = list(renderer_of(name).encoder.special_ids)
    whole = "".join(tokens)
    return [
        Hostile((f"x{whole}x",) * 4),
        *(
            Hostile((f"a{token}", f"{token}b", f"{token[:-1]}", f"{token[1:]}"))
            for token in tokens[:12]
        ),
    ]


@pytest.mark.parametrize("name", [name for name in USUAL if name in TEMPLATES])
def test_nothing_from_outside_makes_a_special_token(name: str) -> None:
    for text in fixed_attacks(name)[:4]:
        attack(name, text)

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(hostile(name))
    def attacked(text: Hostile) -> None:
        attack(name, text)

    attacked()


@pytest.mark.slow
@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_lets_anything_from_outside_make_a_special_token(name: str) -> None:
    try:
        renderer_of(name)
    except ConfigError as error:
        pytest.skip(str(error))
    for text in fixed_attacks(name):
        attack(name, text)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(hostile(name))
    def attacked(text: Hostile) -> None:
        attack(name, text)

    attacked()


@pytest.mark.parametrize("name", ["qwen3", "gptoss"])
def test_a_guard_that_is_gone_is_noticed(name: str) -> None:
    renderer = bare_renderer(TEMPLATES[name].read_text())
    trusting = TemplateRenderer(
        renderer.tokenizer, renderer.template, trusted_roles=["user", "tool", "assistant", "system"]
    )
    text = fixed_attacks(name)[0]
    with pytest.raises(AssertionError):
        require_skeleton(trusting, text, lambda t: trusting.open(conversation_of(t)[:2], []))
