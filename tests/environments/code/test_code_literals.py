"""Answers come out of a sandbox as text, and are read without running any of it."""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from time import process_time
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.environments.code.judging.literal import (
    MAX_CHARACTERS,
    NotPlainError,
    read_value,
    same,
)
from agentfly.environments.code.judging.writing import write_result, write_value

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(SCALARS, inner)
        | st.sets(SCALARS)
    ),
    max_leaves=8,
)


@given(PLAIN)
@settings(max_examples=50)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert read_value(repr(value)) == value
    assert read_value(write_value(value)) == value
    # As a test's process reads it, where everything is plain Python.
    assert eval(write_value(value), {"__builtins__": {}}) == value


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (numpy.int64(3), 3),
        (numpy.float64(0.5), 0.5),
        (numpy.bool_(True), True),
        (numpy.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ([numpy.int32(1)], [1]),
        (Counter("aab"), {"a": 2, "b": 1}),
        (defaultdict(int, {"a": 1}), {"a": 1}),
        (defaultdict(lambda: 0, {"a": 1}), {"a": 1}),
        (OrderedDict(a=1), {"a": 1}),
        (OrderedDict({"a": range(2)}), {"a": range(2)}),
        (frozenset({1}), {1}),
        (frozenset(), set()),
        (Counter(), {}),
        (OrderedDict(), {}),
        (defaultdict(list), {}),
    ],
)
def test_what_is_plain_about_a_value_is_taken(value: object, plain: object) -> None:
    assert read_value(repr(value)) == plain


@pytest.mark.parametrize(
    "value",
    [
        Decimal("0.10"),
        Decimal("1E+5"),
        Decimal("-1E-1000026"),
        Decimal("9" * 5000),
        Decimal("Infinity"),
        Fraction(1, 3),
        Fraction(-(10**4000), 3),
        deque([1, 2], maxlen=3),
        deque(),
        range(1, 9, 2),
        range(10**30),
        bytearray(),
        bytearray(b"ab"),
        date(2024, 2, 29),
        datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001 - no zone is written either
        time(1, 2),
        timedelta(days=-1, seconds=5),
        {"b": 1, "a": 2}.keys(),
        {"b": 1}.items(),
        [{Fraction(1, 2): deque([Decimal(1)])}],
        complex(1, -2),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_value_of_the_standard_library_keeps_its_type(value: Any) -> None:
    read = read_value(repr(value))
    assert (read, type(read)) == (value, type(value))
    written = eval(write_value(value), {})
    assert (written, type(written)) == (value, type(value))


@pytest.mark.parametrize(
    "value",
    [
        10**5000,
        -(10**5000),
        [set(), {10**5000, 1}, ({10**5000: -(10**5000)},)],
        Fraction(10**5000, 3),
        deque([10**5000], maxlen=2),
        deque([10**5000]),
        range(10**5000),
        Counter({10**5000: 1}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_integer_of_more_digits_than_python_writes_is_carried(value: Any) -> None:
    with pytest.raises(ValueError, match="4300 digits"):
        repr(value)
    text = repr(write_result(value))
    assert read_value(text) == value
    assert eval(text, {}) == value
    assert same(read_value(text), value)
    assert not same(read_value(text), [])


def test_keys_that_are_long_integers_are_compared() -> None:
    assert same({10**5000: 1}, {10**5000: 1})
    assert not same({10**5000: 1}, {10**5001: 1})
    assert not same({10**5000: 1}, {10**5000: 2})


def test_the_longest_integer_is_read_at_once() -> None:
    text = "0x" + "f" * (MAX_CHARACTERS - 2)
    start = process_time()
    assert read_value(text) == 16 ** (MAX_CHARACTERS - 2) - 1
    assert process_time() - start < 0.2


@pytest.mark.parametrize("form", ["{{{long}, {decimals}}}", "{{*(), {decimals}, {long}}}"])
def test_a_set_of_equal_hashes_does_not_cost_seconds(form: str) -> None:
    long = int("f" * 45_000, 16)
    modulus = sys.hash_info.modulus
    decimals = ", ".join(f"Decimal('{hash(long) + modulus * n}')" for n in range(1, 60))
    start = process_time()
    with pytest.raises(NotPlainError):
        read_value(form.format(long=hex(long), decimals=decimals))
    assert process_time() - start < 0.5
    assert len(read_value(form.format(long=10**4000, decimals=decimals))) == 60


def test_nan_is_carried() -> None:
    assert repr(read_value("[nan, -inf]")) == "[nan, -inf]"
    assert repr(eval(write_value([float("nan"), float("-inf")]), {})) == "[nan, -inf]"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').getcwd()",
        "print(1)",
        "lambda: 1",
        "<object object at 0x7f>",
        "[x for x in (1,)]",
        "2 ** 99999999",
        "1 if 1 else 2",
        "{[]: 1}",
        "[" * 50_000 + "]" * 50_000,
        "-" * 50_000 + "1",
        "1+" * 40_000 + "1",
        "9" * 50_000,
        "0x" + "f" * MAX_CHARACTERS,
        "'" + "x" * MAX_CHARACTERS + "'",
        "int(int)",
        "Fraction(1, 0)",
        "range('x')",
        "Decimal('x')",
        "deque(print(1))",
        "date(1, 1, 99)",
        "",
    ],
    ids=lambda text: text[:20],
)
def test_nothing_else_is_read_and_nothing_is_run(text: str) -> None:
    with pytest.raises(NotPlainError):
        read_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "Fraction('1e9')",
        "Fraction(1e9)",
        "Fraction(Decimal('1E+9'), 1)",
        "Decimal('1E+9999999')",
        "Decimal('1E-9999999')",
        "Decimal((0, (1,), 9))",
        "deque(range(9))",
        "deque('x', maxlen=9)",
        "deque(dict_keys([1]))",
        "bytearray(9)",
        "bytearray(range(9))",
        "bytearray('x', 'foo')",
        "OrderedDict(range(0))",
        "OrderedDict([range(2)])",
        "dict_keys(range(9))",
        "dict_items([range(2)])",
        "dict_items(deque([(1, 2)]))",
        "date(b'\\x07\\xe8\\x02\\x1d')",
        "timedelta(1e9)",
        "range(True)",
        "frozenset(1, 2)",
        "Counter(a=1)",
        "deque(**{'maxlen': 1})",
    ],
)
def test_no_text_makes_a_value_that_is_larger_than_itself(text: str) -> None:
    """Only what Python writes is read: a small text must not cost a training time or memory."""
    with pytest.raises(NotPlainError):
        read_value(text)


@pytest.mark.parametrize(
    "said",
    [Decimal("sNaN"), [{1: Decimal("sNaN")}], {1: [2]}.items(), range(10**30), Fraction(10**4000)],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_that_can_not_be_compared_is_not_the_expected_one(said: object) -> None:
    for expected in (9, 0.5, "x", None, [{"1": 9}], {(1, 2)}, Fraction(1, 3), Decimal(9)):
        assert same(said, expected) is False


@pytest.mark.parametrize(
    ("said", "expected", "verdict"),
    [
        ((1, 2), [1, 2], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        (0.1 + 0.2, 0.3, True),
        (0.31, 0.3, False),
        (3, 3.0, True),
        ("3", 3, False),
        ({1: "a"}, {"1": "a"}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({1: "wrong", "1": "a"}, {"1": "a"}, False),
        ({"1": "wrong", 1: "a"}, {"1": "a"}, False),
        (None, None, True),
        (None, 0, False),
        (float("nan"), 1.0, False),
        (10**400, 0.5, False),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_an_answer_is_compared_with_what_json_can_say(
    said: object, expected: object, verdict: bool
) -> None:
    assert same(said, expected) is verdict
