"""Properties of every format: calls are parsed back as written, and no text makes parsing fail."""

import json
import keyword
import time
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.chat.formats import FORMATS, CallFormat, get_format
from agentfly.types import ToolCall

JSON_FORMATS = (
    *("hermes", "llama-json", "json", "mistral", "mistral-v11", "deepseek-v3", "deepseek-v3.1"),
    *("kimi", "harmony", "react"),
)
"""Arguments are JSON in the text."""
PYTHON_FORMATS = ("llama-pythonic", "lfm2")
TAGGED_FORMATS = ("qwen3-coder", "glm")
"""Arguments are bare text between tags."""

names = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,15}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(), values, max_size=4)
contents = st.sampled_from(["", "Let me look.", "Eine Zeile\nund noch 好的"])


def dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def numbered(calls: Sequence[tuple[str, str]]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(id=f"call_{index}", name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(calls)
    )


def said_before_calls(format_: CallFormat, content: str) -> str:
    return f"Thought: {content}" if format_.name == "react" and content else content


@pytest.mark.parametrize("name", JSON_FORMATS)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), content=contents)
def test_json_calls_come_back_character_for_character(
    name: str, data: st.DataObject, content: str
) -> None:
    spelled = objects.flatmap(
        lambda value: st.sampled_from(
            [dumped(value), json.dumps(value, indent=1), json.dumps(value)]
        )
    )
    calls = numbered(data.draw(st.lists(st.tuples(names, spelled), min_size=1, max_size=3)))
    if name == "kimi":
        calls = tuple(
            ToolCall(id=f"functions.{call.name}:{index}", name=call.name, arguments=call.arguments)
            for index, call in enumerate(calls)
        )
    format_ = get_format(name)
    reading = format_.read(format_.write(calls, content))
    assert reading.calls == calls
    assert reading.content == said_before_calls(format_, content)


@pytest.mark.parametrize("name", PYTHON_FORMATS)
@settings(max_examples=20, deadline=None)
@given(calls=st.lists(st.tuples(names, objects), min_size=1, max_size=3), content=contents)
def test_python_calls_come_back(
    name: str, calls: list[tuple[str, dict[str, object]]], content: str
) -> None:
    written = numbered([(called, dumped(arguments)) for called, arguments in calls])
    format_ = get_format(name)
    reading = format_.read(format_.write(written, content))
    back = [(call.name, json.loads(call.arguments)) for call in reading.calls]
    assert back == calls
    assert (reading.content, [call.id for call in reading.calls]) == (
        content,
        [call.id for call in written],
    )


def test_python_arguments_whose_names_python_would_refuse_or_change() -> None:
    arguments = {"from": 1, "ﬁ": 2, "a-b": 3, "": 4, "None": 5}
    calls = numbered([("f", dumped(arguments))])
    (call,) = get_format("lfm2").read(get_format("lfm2").write(calls)).calls
    assert json.loads(call.arguments) == arguments


@pytest.mark.parametrize("name", TAGGED_FORMATS)
@settings(max_examples=20, deadline=None)
@given(
    calls=st.lists(
        st.tuples(names, st.dictionaries(names, values, max_size=4)), min_size=1, max_size=3
    ),
    content=contents,
)
def test_tagged_parameters_come_back_as_text(
    name: str, calls: list[tuple[str, dict[str, object]]], content: str
) -> None:
    written = numbered([(called, dumped(arguments)) for called, arguments in calls])
    format_ = get_format(name)
    reading = format_.read(format_.write(written, content))
    back = [(call.name, as_text(json.loads(call.arguments))) for call in reading.calls]
    assert back == [(called, as_text(arguments)) for called, arguments in calls]
    assert reading.content == content


def as_text(arguments: dict[str, object]) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else dumped(value) for key, value in arguments.items()
    }


@settings(max_examples=20, deadline=None)
@given(codes=st.lists(st.text(), min_size=1, max_size=3), content=contents)
def test_code_comes_back(codes: list[str], content: str) -> None:
    calls = numbered([("python", dumped({"code": code})) for code in codes])
    reading = get_format("code").read(get_format("code").write(calls, content))
    assert (reading.calls, reading.content) == (calls, content)


def test_code_with_fences_in_it_comes_back() -> None:
    calls = numbered([("python", dumped({"code": 'x = """\n```\n````\n"""'}))])
    assert get_format("code").read(get_format("code").write(calls)).calls == calls


@settings(max_examples=20, deadline=None)
@given(queries=st.lists(st.text().map(str.strip), min_size=1, max_size=3), content=contents)
def test_tags_come_back(queries: list[str], content: str) -> None:
    calls = numbered([("search", dumped({"query": query})) for query in queries])
    reading = get_format("tags").read(get_format("tags").write(calls, content))
    assert (reading.calls, reading.content) == (calls, content)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(content=st.text(alphabet="abc 好\n").map(str.strip))
def test_an_answer_comes_back(name: str, content: str) -> None:
    reading = FORMATS[name].read(FORMATS[name].write((), content))
    assert (reading.content, reading.calls) == (content, ())


# --- Reading never fails ----------------------------------------------------------------------

FRAGMENTS = (
    *(
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "<parameter=a>",
        "</parameter>",
        "</function>",
    ),
    *(
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
    ),
    *("<|python_tag|>", "<|tool_call_start|>", "<|python_start|>", "[f(", "[f(a=1)]", "f.call("),
    *("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"),
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    *("<|tool_call_end|>", "<|channel|>analysis", "<|channel|>commentary to=functions.f"),
    *("<|message|>", "<|start|>assistant", "<|end|>", "<|call|>", "\nAction: f", "\nAction Input:"),
    *(
        "\nFinal Answer:",
        "\nObservation:",
        "```python\n",
        "\n```\n",
        "```json",
        "<search>",
        "</search>",
    ),
    *('{"name": "f", "arguments": {', '{"name":', '"parameters":', "{'name': 'f'", '"function": {'),
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        "\\",
        ",",
        ":",
        "=",
        "\n",
        " ",
        "a",
        "1",
        "null",
        "**",
    ),
)
scraps = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(text=scraps | st.text())
def test_reading_is_total(name: str, text: str) -> None:
    reading = FORMATS[name].read(text)
    assert all(call.id for call in reading.calls)
    assert all(call.name or call.problem for call in reading.calls)
    for start, end in reading.reasoning_spans:
        assert 0 <= start <= end <= len(text)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_a_damaged_call_is_never_lost(name: str, data: st.DataObject) -> None:
    """Whatever is cut off the end, a call stays a call as long as its beginning is there."""
    tool, parameter = {"code": ("python", "code"), "tags": ("search", "query")}.get(
        name, ("f", "a")
    )
    calls = numbered([(tool, dumped({parameter: "b"})), (tool, dumped({parameter: "c"}))])
    text = FORMATS[name].write(calls)
    kept = data.draw(st.integers(len(text) // 2 - 1, len(text)))
    reading = FORMATS[name].read(text[:kept])
    assert reading.calls
    damage = data.draw(st.integers(0, len(text) - 1))
    scrap = data.draw(st.sampled_from(FRAGMENTS))
    FORMATS[name].read(text[:damage] + scrap + text[damage + 1 :])


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=20, deadline=None)
@given(
    call=st.builds(ToolCall, id=st.text(), name=st.text(), arguments=st.text()), content=contents
)
def test_whatever_was_read_can_be_written(name: str, call: ToolCall, content: str) -> None:
    """Calls that were malformed are written into later prompts like all others."""
    assert isinstance(FORMATS[name].write((call,), content), str)


NESTED = (
    *(('{"name":"f","arguments":', "}"), ('{"name":"f","function":', "}"), ("{'a':", "}")),
    *(("[", "]"), ("f(a=", ")")),
)


@pytest.mark.parametrize("name", FORMATS)
def test_deep_nesting_is_read(name: str) -> None:
    for depth, (opening, closing) in product((500, 990, 3000), NESTED):
        nested = opening * depth + "{}" + closing * depth
        for around in ("<tool_call>{}</tool_call>", "[TOOL_CALLS]f[ARGS]{}", "[f(a={})]"):
            FORMATS[name].read(around.format(nested))


# --- Reading never takes long -----------------------------------------------------------------

LENGTH = 80_000
MOST_SECONDS = 3.0
"""Linear reading takes less than a second, even on a busy machine; quadratic takes many."""


DEGENERATE = (
    *(
        "{",
        '{"',
        '\\"',
        "'\"",
        "{a:b:",
        '{"name":',
        '{"name":{',
        "[f(a=",
        "[f(a=1)]",
        "<tool_call>{",
    ),
    *('<tool_call>{"a":', "<tool_call>{'a': '", "<function=f><parameter=a>", "</parameter> "),
    *("<tool_call><function=f>\n<parameter=a>\nx</function>\n", "<parameter=a>x</parameter>y"),
    *("<tool_call>f<arg_key>a</arg_key><arg_value>", "<search>a", "```python\n`", "<|end|>"),
    *("Action: f\nAction Input: {\n", "[TOOL_CALLS]f[ARGS]{", "<|channel|>to=f<|message|>{"),
    *("<｜tool▁call▁begin｜>f<｜tool▁sep｜>{", "<|tool_call_begin|>f<|tool_call_argument_begin|>{"),
)
"""What a model gone astray repeats for ever."""
SAME_READERS = {"mistral-v11", "deepseek-v3.1", "lfm2", "llama-json"}
"""They share their reader with another format, and reading so much takes its time."""


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - SAME_READERS))
def test_long_degenerate_text_is_read_fast(name: str) -> None:
    for unit in DEGENERATE:
        begin = time.process_time()
        FORMATS[name].read(unit * (LENGTH // len(unit)))
        seconds = time.process_time() - begin
        assert seconds < MOST_SECONDS, f"{seconds:.1f} s for {unit!r} again and again"
