"""The tokenizer and chat template that the tiny models share."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.models import resolve_model
from agentfly.models.tiny.build import TOKENIZER_FILES, build_tokenizer

transformers = pytest.importorskip("transformers")

MARKS = (
    "<|pad|>",
    "<|im_start|>",
    "<|im_end|>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(resolve_model("tiny"))


@pytest.mark.slow
def test_the_shipped_tokenizer_is_what_the_script_makes(tmp_path: Path) -> None:
    build_tokenizer(tmp_path)
    for name in TOKENIZER_FILES:
        assert (tmp_path / name).read_text() == (resolve_model("tiny") / name).read_text()


@pytest.mark.slow
def test_every_character_of_unicode_comes_back(tokenizer: Any) -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    for start in range(0, len(characters), 50_000):
        text = "".join(characters[start : start + 50_000])
        assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=200)
@given(text=st.lists(st.sampled_from(MARKS) | st.text(max_size=20)).map("".join))
def test_any_text_comes_back_even_with_marks_in_it(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("text", ["23*41", " 23 * 41", "in 1984,", '"7071"}}', "x1\n2"])
def test_digits_are_single_tokens(tokenizer: Any, text: str) -> None:
    digits = {str(digit): tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)}
    wanted = [digits[character] for character in text if character in digits]
    assert [i for i in tokenizer.encode(text) if i in digits.values()] == wanted


def test_marks_are_single_tokens_and_nothing_is_added_in_front(tokenizer: Any) -> None:
    for mark in MARKS:
        assert tokenizer.convert_ids_to_tokens(tokenizer.encode(f"a{mark}b"))[1:-1] == [mark]
    assert (tokenizer.pad_token, tokenizer.eos_token) == ("<|pad|>", "<|im_end|>")


def test_tool_marks_survive_decoding_without_special_tokens(tokenizer: Any) -> None:
    ids = tokenizer.encode("<tool_call>\n{}\n</tool_call><|im_end|>")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<tool_call>\n{}\n</tool_call>"


def test_roles_and_common_words_are_single_tokens(tokenizer: Any) -> None:
    for text in ("system", "user", "assistant", "tool", "calculator", " answer", " kitchen"):
        assert len(tokenizer.encode(text)) == 1, text


CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Compute.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string", "description": "Arithmetic."}},
            "required": ["expression"],
        },
    },
}


def test_the_template_renders_a_conversation_with_a_tool(tokenizer: Any) -> None:
    call = {"function": {"name": "calculator", "arguments": {"expression": "23*41"}}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is 23*41?"},
        {"role": "assistant", "content": "", "reasoning_content": "Call.", "tool_calls": [call]},
        {"role": "tool", "name": "calculator", "content": "943"},
        {"role": "assistant", "content": "943"},
    ]
    assert tokenizer.apply_chat_template(messages, tools=[CALCULATOR], tokenize=False) == (
        "<|im_start|>system\nBe brief.\n\n"
        'Call a tool with <tool_call>\n{"name": ..., "arguments": {...}}\n</tool_call>. Tools:\n'
        "calculator(expression: string): Compute.\n  expression: Arithmetic.<|im_end|>\n"
        "<|im_start|>user\nWhat is 23*41?<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nCall.\n</think>\n<tool_call>\n"
        '{"name": "calculator", "arguments": {"expression": "23*41"}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\n<tool_response>\n943\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n943<|im_end|>\n"
    )


def test_a_tool_s_whole_signature_is_shown(tokenizer: Any) -> None:
    properties = {
        "query": {"type": "string"},
        "limit": {"type": "integer", "default": 5},
        "kind": {"enum": ["a", "b"], "description": "Which."},
        "tags": {"type": "array", "items": {"type": "string"}},
        "since": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "box": {"type": "object", "properties": {"x": {"type": "number"}}},
    }
    parameters = {"type": "object", "properties": properties, "required": ["query", "tags"]}
    function = {"name": "find", "description": "Find.", "parameters": parameters}
    asked = [{"role": "user", "content": "Hello."}]
    text = tokenizer.apply_chat_template(asked, tools=[{"function": function}], tokenize=False)
    assert (
        'find(query: string, limit: integer = 5, kind?: "a" | "b", tags: array of string, '
        f"since?: integer | null, box?: {json.dumps(properties['box'])}): Find.\n  kind: Which."
    ) in text


_TEXT = st.text(max_size=12)
_CALLS = st.lists(
    st.builds(lambda text: {"function": {"name": "f", "arguments": {"x": text}}}, _TEXT), max_size=2
)
_MESSAGE = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, _TEXT),
    st.builds(lambda text: {"role": "tool", "content": text}, _TEXT),
    st.builds(
        lambda text, why, calls: {
            "role": "assistant",
            "content": text,
            "reasoning_content": why,
            "tool_calls": calls,
        },
        _TEXT,
        _TEXT,
        _CALLS,
    ),
)


@settings(max_examples=60)
@given(
    messages=st.lists(_MESSAGE, min_size=1, max_size=6), system=st.booleans(), tools=st.booleans()
)
def test_the_template_only_appends(
    tokenizer: Any, messages: list[dict[str, Any]], system: bool, tools: bool
) -> None:
    said = [{"role": "system", "content": "Be brief."}, *messages] if system else messages
    rendered = [
        tokenizer.apply_chat_template(
            said[:length], tools=[CALCULATOR] if tools else None, tokenize=False
        )
        for length in range(1, len(said) + 1)
    ]
    assert all(after.startswith(before) for before, after in pairwise(rendered))
    opened = tokenizer.apply_chat_template(
        said, tools=[CALCULATOR] if tools else None, tokenize=False, add_generation_prompt=True
    )
    assert opened == rendered[-1] + "<|im_start|>assistant\n"
