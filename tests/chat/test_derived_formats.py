"""Formats without a name are derived from the template's own calls, and then read like others.

The templates here are invented: no model has them.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.chat.format_choice import FormatChoice
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

HEAD = (
    "{% if tools %}<sys>{{ tools | tojson }}</sys>{% endif %}"
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content or '' }}"
)
TAIL = "<|stop|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
EACH = "{% for c in m.tool_calls %}{% set f = c.function %}"
ALL = "{% if m.tool_calls %}"
VALUE = "{{ v if v is string else v | tojson }}"
TYPE = (
    "{{ 'string' if v is string else 'boolean' if v is boolean else 'number' if v is number "
    "else 'array' }}"
)
COMMA = "{{ ', ' if not loop.last }}"
PAIRS = "{% for k, v in f.arguments.items() %}"
PYTHON = "{{ f.name }}(" + PAIRS + "{{ k }}={{ v | tojson }}" + COMMA + "{% endfor %})"
NESTED = """{% macro tag(k, v) %}<{{ k }}>{% if v is mapping %}{% for a, b in v.items() %}
{{- tag(a, b) }}{% endfor %}{% elif v is iterable and v is not string %}{% for i in v %}
{{- tag('item', i) }}{% endfor %}{% else %}{{ v if v is string else v | tojson }}{% endif %}
{{- '' }}</{{ k }}>{% endmacro %}"""
QUOTED = """{% macro w(v) %}{% if v is string %}<q>{{ v }}<q>{% elif v is mapping %}{{ '{' }}
{%- for a, b in v.items() %}{{ a }}:{{ w(b) }}{{ ',' if not loop.last }}{% endfor %}{{ '}' }}
{%- elif v is iterable %}[{% for i in v %}{{ w(i) }}{{ ',' if not loop.last }}{% endfor %}]
{%- else %}{{ v | tojson }}{% endif %}{% endmacro %}"""
CALLS = {
    "json under keys of its own": ALL
    + "<do>"
    + EACH
    + '{"fn": "{{ f.name }}", "with": {{ f.arguments | tojson }}}'
    + COMMA
    + "{% endfor %}</do>{% endif %}",
    "the name as the key": ALL
    + "<do>["
    + EACH
    + '{"{{ f.name }}": {{ f.arguments | tojson }}}'
    + COMMA
    + "{% endfor %}]</do>{% endif %}",
    "wrapped as by OpenAI": EACH
    + '<do>{"type": "function", "function": {"name": "{{ f.name }}", '
    + '"arguments": {{ f.arguments | tojson }}}}</do>{% endfor %}',
    "a name and its json": EACH
    + "<act>{{ f.name }}<with>{{ f.arguments | tojson }}</act>{% endfor %}",
    "an id, a name and its json": EACH
    + "<act>{{ c.id }}<name>{{ f.name }}<with>{{ f.arguments | tojson }}</act>{% endfor %}",
    "tags": ALL
    + "<calls>\n"
    + EACH
    + '<call to="{{ f.name }}">'
    + PAIRS
    + f'<p k="{{{{ k }}}}">{VALUE}</p>'
    + "{% endfor %}</call>\n{% endfor %}</calls>{% endif %}",
    "tags that say what is a string": EACH
    + '<call to="{{ f.name }}">\n'
    + PAIRS
    + "<p k=\"{{ k }}\" text=\"{{ 'true' if v is string else 'false' }}\">"
    + f"{VALUE}</p>\n"
    + "{% endfor %}</call>{% endfor %}",
    "tags named by their keys": NESTED
    + EACH
    + '<call to="{{ f.name }}">'
    + PAIRS
    + "{% if v is not none %}{{ tag(k, v) }}{% endif %}{% endfor %}</call>{% endfor %}",
    "numbered tags that name types": EACH
    + '<call to="{{ f.name }}" no="{{ loop.index }}">'
    + PAIRS
    + f'<p k="{{{{ k }}}}" type="{TYPE}">{VALUE}</p>'
    + "{% endfor %}</call>{% endfor %}",
    "tags spelled with special tokens": ALL
    + "<|open|>calls<|sep|>"
    + EACH
    + '<|open|>call to="{{ f.name }}"<|sep|>'
    + PAIRS
    + f'<|open|>p k="{{{{ k }}}}"<|sep|>{VALUE}<|close|>p<|sep|>'
    + "{% endfor %}<|close|>call<|sep|>{% endfor %}<|close|>calls<|sep|>{% endif %}",
    "python": ALL + "<py>[" + EACH + PYTHON + COMMA + "{% endfor %}]</py>{% endif %}",
    "python on lines": ALL + "<py>\n" + EACH + PYTHON + "\n{% endfor %}</py>{% endif %}",
    "strings between marks": QUOTED
    + EACH
    + "<act>run:{{ f.name }}{{ w(f.arguments) }}</act>{% endfor %}",
}
TOOL = ToolSpec(
    name="book",
    description="Book a room.",
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "nights": {"type": "integer"},
            "price": {"type": "number"},
            "sea": {"type": "boolean"},
            "guests": {"type": "array", "items": {"type": "string"}},
        },
    },
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "city": st.text(alphabet="abZ é好0-9.,:;'\"!?\n", min_size=1),
        "nights": st.integers(-(10**9), 10**9),
        "price": st.floats(-1e6, 1e6, allow_nan=False).map(lambda x: round(x, 3)),
        "sea": st.booleans(),
        "guests": st.lists(st.text(alphabet="ab c", min_size=1), min_size=1, max_size=3),
    },
)


def renderer_of(way: str) -> TemplateRenderer:
    special = ["<|user|>", "<|assistant|>", "<|tool|>", "<|system|>", "<|stop|>"]
    tokenizer = ByteTokenizer(special, eos_token="<|stop|>")
    return TemplateRenderer(tokenizer, ChatTemplate(HEAD + CALLS[way] + TAIL))


RENDERERS = {way: renderer_of(way) for way in CALLS}


def choice(way: str) -> FormatChoice:
    return RENDERERS[way].format_choice


def said(way: str, calls: list[dict[str, Any]]) -> str:
    """Return the turn in which these calls are made, as the template writes it."""
    made = tuple(
        ToolCall(id=f"id{i}", name="book", arguments=json.dumps(given))
        for i, given in enumerate(calls)
    )
    renderer = RENDERERS[way]
    messages = [Message(role="user", content="?"), Message(role="assistant", tool_calls=made)]
    text = renderer.template.render(
        [renderer.capabilities.write(message) for message in messages], add_generation_prompt=False
    )
    return text.rpartition("<|assistant|>")[2]


def parsed(way: str, text: str) -> Message:
    renderer = RENDERERS[way]
    ids = tuple(renderer.tokenizer.encode(text))
    completion = Completion(
        token_ids=ids,
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )
    return renderer.parse(completion, [TOOL]).message


@pytest.mark.parametrize("way", CALLS)
def test_a_format_is_derived(way: str) -> None:
    assert (choice(way).format.name, choice(way).source) == ("derived", "read back")
    assert (choice(way).one_call, choice(way).two_calls) == (True, True)


@pytest.mark.parametrize("way", CALLS)
@settings(max_examples=25, deadline=None)
@given(calls=st.lists(arguments, min_size=1, max_size=3))
def test_what_the_template_writes_is_read_back(way: str, calls: list[dict[str, Any]]) -> None:
    message = parsed(way, said(way, calls))
    assert [json.loads(call.arguments) for call in message.tool_calls] == calls
    assert not any(call.problem or call.repaired for call in message.tool_calls)
    assert message.content == ""


@pytest.mark.parametrize("way", CALLS)
def test_a_turn_cut_in_a_call_says_so(way: str) -> None:
    text = said(way, [{"city": "Rome", "nights": 3}])
    message = parsed(way, "Let me see. " + text[: text.index("Rome") + 2])
    (call,) = message.tool_calls
    assert call.problem == "the call was cut off before its end"
    assert message.content == "Let me see."


@pytest.mark.parametrize("way", CALLS)
def test_what_the_format_writes_is_read_back(way: str) -> None:
    call_format = choice(way).format
    calls = [ToolCall(id="id0", name="book", arguments='{"city": "Rome", "nights": 3}')] * 2
    read = call_format.read(call_format.write(calls, "Let me see."))
    assert [json.loads(call.arguments) for call in read.calls] == [
        {"city": "Rome", "nights": 3}
    ] * 2
    assert read.content == "Let me see."


def test_a_prompt_with_other_white_space_is_no_part_of_a_call() -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{% if m.tool_calls %}<|quick|>   <|calls|>{% for c in m.tool_calls %}"
        "<|call|>{{ c.function.name }}<|with|>{{ c.function.arguments | tojson }}<|done|>"
        "{% endfor %}<|all|>{% else %}{{ m.content }}{% endif %}<|stop|>"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>  <|quick|>{% endif %}"
    )
    renderer = TemplateRenderer(ByteTokenizer(), source)
    assert renderer.format_choice.format.name == "derived"
    reading = renderer.call_format.read('  <|calls|><|call|>f<|with|>{"a": 1}<|done|><|all|>')
    assert [(call.name, call.arguments) for call in reading.calls] == [("f", '{"a": 1}')]
    assert reading.content == ""
