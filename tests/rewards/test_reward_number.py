import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.rewards.numeric_match import Number, last_number

READ = {
    "42": 42.0,
    "42.": 42.0,
    "the answer is 42, I think": 42.0,
    "-3.5": -3.5,
    "\u22127": -7.0,
    "+8": 8.0,
    ".5": 0.5,
    "-.5": -0.5,
    "007": 7.0,
    "(-4)": -4.0,
    "x=-3": -3.0,
    "10-20": 20.0,
    "5 - 3": 3.0,
    "(5)-3": 3.0,
    "1,000": 1000.0,
    "1,234,567.89": 1234567.89,
    "1{,}000": 1000.0,
    "1,2,3": 3.0,
    "$5": 5.0,
    "-$5.50": -5.5,
    "$-5": -5.0,
    r"\$1,200": 1200.0,
    "US$5": 5.0,
    "5 €": 5.0,
    "is $12$.": 12.0,
    "3/4": 0.75,
    "-3/4": -0.75,
    "1 / 4": 0.25,
    "1 1/2": 1.5,
    "-1 1/2": -1.5,
    r"\frac{3}{4}": 0.75,
    r"-\frac{1}{2}": -0.5,
    r"2\dfrac{1}{2}": 2.5,
    "1/2/2024": 2024.0,
    "1.5e-3": 0.0015,
    "2E5": 200000.0,
    "2 × 10^5": 200000.0,
    "3x10^-2": 0.03,
    r"2 \times 10^{5}": 200000.0,
    r"2 \cdot 10^{-1}": 0.2,
    "10^5": 100000.0,
    "10**3": 1000.0,
    "12th": 12.0,
    "5km": 5.0,
    "**12**": 12.0,
    "Answer...42": 42.0,
    "答案是42。": 42.0,
    "3 then 1/0": 3.0,
}


@pytest.mark.parametrize(("text", "value"), READ.items())
def test_how_numbers_are_written(text: str, value: float) -> None:
    assert last_number(text) == Number(value)


@pytest.mark.parametrize("text", ["", "none", "H2O", "x_1", "GPT4", "v1.2", "1/0", "1e400", "-"])
def test_what_is_no_number(text: str) -> None:
    assert last_number(text) is None


@pytest.mark.parametrize("text", ["50%", r"50\%", "50 %", "$50%$"])
def test_percentages_are_marked(text: str) -> None:
    assert last_number(text) == Number(50.0, percent=True)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Number(50, percent=True), Number(50), True),
        (Number(50, percent=True), Number(0.5), True),
        (Number(50, percent=True), Number(5000), False),
        (Number(50, percent=True), Number(50, percent=True), True),
        (Number(50, percent=True), Number(0.5, percent=True), False),
        (Number(50), Number(0.5), False),
    ],
)
def test_a_percentage_means_either_form_to_a_plain_number(
    one: Number, other: Number, same: bool
) -> None:
    assert one.is_close(other, rel_tol=0, abs_tol=0) is same
    assert other.is_close(one, rel_tol=0, abs_tol=0) is same


def test_two_percentages_differ_by_what_is_written() -> None:
    one, other = Number(50, percent=True), Number(51, percent=True)
    assert one.is_close(other, rel_tol=0, abs_tol=1.0)
    assert not one.is_close(other, rel_tol=0, abs_tol=0.5)


WORDS = st.text(alphabet="abc .:!?=\n", max_size=20)
"""Text that may stand before a number and holds none."""


@given(st.integers(-(10**15), 10**15), WORDS, WORDS)
def test_any_integer_is_read_back_with_and_without_commas(n: int, before: str, after: str) -> None:
    for written in (f"{n}", f"{n:,}", f"${n}", f"{n}.0", f"{n}/1"):
        assert last_number(f"{before} {written} {after}") == Number(float(n))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_float_is_read_back_as_python_writes_it(x: float) -> None:
    for written in (repr(x), f"{x:e}", f"{x:.3f}"):
        read = last_number(f"so x = {written}")
        assert read is not None
        assert read.value == float(written)


@given(st.integers(0, 999), st.integers(0, 999), st.integers(1, 999))
def test_any_fraction_is_read_back(whole: int, top: int, bottom: int) -> None:
    plain = last_number(rf"\frac{{{top}}}{{{bottom}}}")
    mixed = last_number(f"{whole} {top}/{bottom} cups")
    assert plain is not None
    assert mixed is not None
    assert math.isclose(plain.value, top / bottom)
    assert math.isclose(mixed.value, whole + top / bottom)


@given(st.text())
def test_no_text_can_break_it(text: str) -> None:
    read = last_number(text)
    assert read is None or math.isfinite(read.value)


def test_long_texts_are_read_in_linear_time() -> None:
    for piece in ("1", "1,", "1 1/", "-", "1.1", "10^", r"\frac{1}"):
        last_number(piece * 20_000)
