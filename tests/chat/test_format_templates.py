"""Calls rendered by real chat templates, as transformers renders them, are read back.

The templates are those that trl carries. It has none for Mistral, Kimi, DeepSeek V3.1 and Llama's
pythonic calls: for these, templates are written here after the grammar that the models' own have.
"""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentfly.chat.capabilities import detect_capabilities
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.format_choice import FormatChoice, choose_format
from agentfly.chat.turn_probe import TurnProbe
from agentfly.types import ToolCall, ToolSpec

_TRL = importlib.util.find_spec("trl")
assert _TRL is not None
assert _TRL.origin is not None
FOLDER = Path(_TRL.origin).parent / "chat_templates"

FORMAT_OF = {
    "qwen2_5": "hermes",
    "qwen2_5_training": "hermes",
    "qwen3": "hermes",
    "qwen3_training": "hermes",
    "qwen3_instruct_2507": "hermes",
    "qwen3_vl": "hermes",
    "qwen3_5_think": "qwen3-coder",
    "qwen3_5_nothink": "qwen3-coder",
    "qwen3_6": "qwen3-coder",
    "qwen3_8": "qwen3-coder",
    "nemotron_3_nano": "qwen3-coder",
    "nemotron_3_super": "qwen3-coder",
    "llama3_1": "llama-json",
    "llama3_2": "llama-json",
    "lfm2_v2": "lfm2",
    "lfm2_2_5_vl": "lfm2",
    "deepseekv3": "deepseek-v3",
    "deepseekv3_training": "deepseek-v3",
    "glm4moe": "glm",
    "glm4moe_training": "glm",
    "gptoss": "harmony",
    "gptoss_training": "harmony",
}
TURN = "{%- for message in messages %}{{ '<' + message.role + '>' + (message.content or '') }}"
END = "{{- '</s>' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<assistant>' }}{%- endif %}"
OWN = {
    "mistral": TURN
    + """{%- if message.tool_calls %}{{ '[TOOL_CALLS] [' }}{%- for call in message.tool_calls %}
    {{- (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' }}
    {{- ']' if loop.last else ', ' }}
    {%- endfor %}{%- endif %}"""
    + END,
    "mistral-v11": TURN
    + """{%- for call in message.tool_calls %}
    {{- '[TOOL_CALLS]' + call.function.name + '[ARGS]' + call.function.arguments | tojson }}
    {%- endfor %}"""
    + END,
    "deepseek-v3.1": TURN
    + """{%- if message.tool_calls %}{{ '<｜tool▁calls▁begin｜>' }}
    {%- for call in message.tool_calls %}
    {{- '<｜tool▁call▁begin｜>' + call.function.name + '<｜tool▁sep｜>' }}
    {{- call.function.arguments | tojson + '<｜tool▁call▁end｜>' }}
    {%- endfor %}{{ '<｜tool▁calls▁end｜>' }}{%- endif %}"""
    + END,
    "kimi": TURN
    + """{%- if message.tool_calls %}{{ '<|tool_calls_section_begin|>' }}
    {%- for call in message.tool_calls %}
    {{- '<|tool_call_begin|>' + call.id + '<|tool_call_argument_begin|>' }}
    {{- call.function.arguments | tojson + '<|tool_call_end|>' }}
    {%- endfor %}{{ '<|tool_calls_section_end|>' }}{%- endif %}"""
    + END,
    "llama-pythonic": "{#- Use [func_name1(key=value)] -#}"
    + TURN
    + """{%- if message.tool_calls %}{{ '[' }}{%- for call in message.tool_calls %}
    {{- call.function.name + '(' }}{%- for key, value in call.function.arguments | items %}
    {{- key + '=' + value | tojson + ('' if loop.last else ', ') }}{%- endfor %}
    {{- ')' + (']' if loop.last else ', ') }}{%- endfor %}{%- endif %}"""
    + END,
}
ONE_CALL_ONLY = {"llama-json", "harmony"}
ARGUMENTS_ARE_TEXT = {"qwen3-coder", "glm"}
ENDS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|call|>",
    "<｜end▁of▁sentence｜>",
    "</s>",
    "<|return|>",
    "<|observation|>",
)

HEADER = re.compile(
    r"\A.*?(?:assistant<\|end_header_id\|>\n\n|assistant\n|<\W?assistant\W?>)", re.S | re.I
)

SEARCH = ToolSpec(
    name="search",
    description="Search the web.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for."}},
        "required": ["query"],
    },
)
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search", {"query": 'Katzen & "Hunde" <好>\nzwei', "limit": 3, "sites": ["a", {"b": 1.5}]}),
    ("now", {}),
)


def carried(file: str) -> str:
    return (FOLDER / f"{file}.jinja").read_text(encoding="utf-8")


def choice(source: str) -> FormatChoice:
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    return choose_format(TurnProbe(template, detect_capabilities(template)))


def rendered(source: str, messages: list[dict[str, Any]], *, prompt: bool) -> str:
    from transformers.utils.chat_template_utils import render_jinja_template

    rendering: Any = render_jinja_template(
        conversations=[messages],
        tools=[SEARCH.to_openai()],
        chat_template=source,
        add_generation_prompt=prompt,
        bos_token="<s>",
        eos_token="</s>",
    )
    return str(rendering[0][0])


def completion(source: str, calls: list[dict[str, Any]]) -> str:
    """Return the assistant's turn, without its end token and its reasoning, which are not ours."""
    user = {"role": "user", "content": "Find cats."}
    turn = {"role": "assistant", "content": "", "tool_calls": calls}
    before = rendered(source, [user], prompt=False)
    text = rendered(source, [user, turn], prompt=False)
    assert text.startswith(before)
    text = text[len(before) :].rstrip("\n")
    for end in ENDS:
        text = text.removesuffix(end)
    text = HEADER.sub("", text, count=1)
    return re.sub(r"\A\s*<think>.*?</think>\s*", "", text, flags=re.S)


def as_message(
    format_name: str, wants_text: bool, index: int, name: str, arguments: object
) -> dict[str, Any]:
    id_ = f"functions.{name}:{index}" if format_name == "kimi" else f"a1b2c3d4{index}"
    shown = json.dumps(arguments) if wants_text else arguments
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": shown}}


@pytest.mark.parametrize(
    ("source", "format_name"),
    [
        *(pytest.param(carried(file), known, id=file) for file, known in FORMAT_OF.items()),
        *(pytest.param(source, known, id=f"own-{known}") for known, source in OWN.items()),
    ],
)
def test_calls_rendered_by_a_template_are_read_back(source: str, format_name: str) -> None:
    form = choice(source).format
    assert form.name == format_name
    calls = CALLS[:1] if format_name in ONE_CALL_ONLY else CALLS
    wants_text = "+ tool['function']['arguments'] +" in source
    messages = [as_message(format_name, wants_text, i, *call) for i, call in enumerate(calls)]
    reading = form.read(completion(source, messages))
    assert [(call.name, expected(format_name, call)) for call in reading.calls] == [
        (name, as_text(arguments) if format_name in ARGUMENTS_ARE_TEXT else arguments)
        for name, arguments in calls
    ]
    assert all(call.problem is None and not call.repaired for call in reading.calls)
    assert reading.content == ""
    if format_name in ("kimi", "mistral"):
        assert [call.id for call in reading.calls] == [message["id"] for message in messages]


def expected(format_name: str, call: ToolCall) -> object:
    arguments = json.loads(call.arguments)
    return as_text(arguments) if format_name in ARGUMENTS_ARE_TEXT else arguments


def as_text(arguments: dict[str, object]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in arguments.items()
    }


def test_a_template_that_prints_objects_as_python_is_given_json() -> None:
    calls = (
        "{%- for call in message.tool_calls or [] %}<tool_call>"
        '{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments }}}'
        "</tool_call>{%- endfor %}"
    )
    template = ChatTemplate(TURN + calls + END, bos_token="<s>", eos_token="</s>")
    assert detect_capabilities(template).string_arguments
    chosen = choice(template.source)
    assert (chosen.format.name, chosen.one_call, chosen.two_calls) == ("hermes", True, True)


TEXT_VALUES = {
    "python-text": "{{ '[' }}{%- for call in message.tool_calls %}"
    "{{ call.function.name + '(' }}{%- for key, value in call.function.arguments | items %}"
    "{{ key ~ '=' ~ value ~ ('' if loop.last else ', ') }}{%- endfor %}"
    "{{ ')' + (']' if loop.last else ', ') }}{%- endfor %}",
    "function-gemma": "{%- for call in message.tool_calls %}"
    "{{ '<start_function_call>call:' + call.function.name + '{' }}"
    "{%- for key, value in call.function.arguments | items %}"
    "{{ key ~ ':<escape>' ~ value ~ '<escape>' ~ ('' if loop.last else ',') }}{%- endfor %}"
    "{{ '}<end_function_call>' }}{%- endfor %}",
}


@pytest.mark.parametrize("format_name", TEXT_VALUES)
def test_a_template_that_writes_every_value_as_text(format_name: str) -> None:
    calls = f"{{%- if message.tool_calls %}}{TEXT_VALUES[format_name]}{{%- endif %}}"
    chosen = choice(TURN + calls + END)
    assert chosen.format.name == format_name
    assert (chosen.source, chosen.one_call, chosen.two_calls) == ("read back", True, True)


@pytest.mark.parametrize("file", ["gemma", "phi3", "llama3", "cohere", "smolvlm"])
def test_templates_without_a_known_format_get_plain_json(file: str) -> None:
    chosen = choice(carried(file))
    assert (chosen.format.name, chosen.source) == ("json", "fallback")
    assert chosen.reason
