"""JSON in the middle of a text, valid and broken."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.chat.formats import FORMATS
from agentfly.chat.formats.json_text import balanced_end, scan_object
from agentfly.runtime.repair_json import MAX_DEPTH, repair_object

objects = st.dictionaries(
    st.text(),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
)


@settings(max_examples=60, deadline=None)
@given(value=objects, before=st.text(), after=st.text())
def test_the_members_of_an_object_are_slices_of_the_text(
    value: dict[str, object], before: str, after: str
) -> None:
    text = json.dumps(value, indent=1)
    members, end = scan_object(before + text + after, len(before))
    assert end == len(before + text)
    assert {key: json.loads(raw) for key, raw in members.items()} == value
    assert all(raw in text for raw in members.values())


@settings(max_examples=60, deadline=None)
@given(value=objects, cut=st.integers(0, 200))
def test_a_cut_object_keeps_the_members_before_the_cut(value: dict[str, object], cut: int) -> None:
    text = json.dumps(value)
    kept = text[: min(cut, len(text) - 1)]
    members, end = scan_object(kept, 0)
    assert end is None
    numbers_may_be_cut = list(members)[:-1]
    assert all(json.loads(members[key]) == value[key] for key in numbers_may_be_cut)
    assert list(members) == list(value)[: len(members)]


plain = st.text(alphabet="ab'\"\\\n 好{}[],:", max_size=8)
plain_objects = st.dictionaries(
    plain,
    st.recursive(
        st.none() | st.booleans() | st.integers() | plain,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(plain, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(value=plain_objects)
def test_python_literals_and_missing_ends_are_repaired(value: dict[str, object]) -> None:
    assert repaired(json.dumps(value)) == value
    assert repaired(repr(value)) == value
    assert repaired(json.dumps({"a": value})[:-1]) == {"a": value}


def repaired(text: str) -> object:
    found = repair_object(text, 0)
    return found and json.loads(found[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ('{"a": [1, {"b": 2}', {"a": [1, {"b": 2}]}),
        ('{"a": [1, 2}', {"a": [1, 2]}),
        ('{"a": "two\nlines\ttab"}', {"a": "two\nlines\ttab"}),
        (r'{"a": "\d\'"}', {"a": r"\d'"}),
        ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
        ("{a: b, c: -1.5e3, d: null}", {"a": "b", "c": -1500.0, "d": None}),
        ('{"a": 1} and {"b": 2}', {"a": 1}),
        ('{"a": "b"c"}', None),
        ('{"a": "unclosed}', None),
        ('{"a" 1}', None),
        ("[1, 2]", None),
        ("no braces", None),
        ("", None),
        ('{"a":' * (MAX_DEPTH + 1) + "1", None),
    ],
)
def test_repairing(text: str, value: object) -> None:
    assert repaired(text) == value


def test_repairing_says_where_the_object_ends() -> None:
    assert repair_object("x {'a': 1,} y", 2) == ('{"a": 1}', 11)


@pytest.mark.parametrize(
    ("text", "end"),
    [("[a]b", 3), ('{"}"}x', 5), ("[f('\\']')]", 10), ("[1, 2", None), ("['a]", None)],
)
def test_where_a_bracket_closes(text: str, end: int | None) -> None:
    assert balanced_end(text, 0) == end


def test_keys_must_be_strings() -> None:
    assert scan_object('{"a": 1, 2: 3}', 0) == ({"a": "1"}, None)


HALF_CALLS = {
    "json": '{"a": ',
    "llama-json": '{"a":[1,',
    "qwen3-coder": ("<tool_call>\n<function=f>\n<parameter=a>\nb\n</parameter>\n<parameter=c>\n"),
    "glm": (
        "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>b</arg_value>\n"
        "<arg_key>c</arg_key>\n<arg_value>"
    ),
    "minimax-m3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">]<]minimax[>[<a>',
}


@pytest.mark.parametrize(("name", "unit"), HALF_CALLS.items())
def test_half_a_call_repeated_is_read_in_linear_time(name: str, unit: str) -> None:
    short, long = (_least_seconds(name, unit * (size // len(unit))) for size in (4_000, 64_000))
    assert long < 40 * max(short, 0.001), "16 times the text, far from 256 times the time"


def _least_seconds(name: str, text: str) -> float:
    times = []
    for _ in range(3):
        begin = time.process_time()
        FORMATS[name].read(text)
        times.append(time.process_time() - begin)
    return min(times)


def test_a_call_inside_an_object_that_never_ends_is_found() -> None:
    text = '{"a": [1, {"b": 2}, {"name": "f", "arguments": {"c": 3}}, {"d": '
    assert [call.name for call in FORMATS["json"].read(text).calls] == ["f"]
