import contextlib
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.tools.tool_calls import run

from agentfly.errors import ToolError
from agentfly.tools import calculator
from agentfly.tools.builtin import calculate
from agentfly.types import ToolStatus


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("6/3", "2"),
        ("0.1 + 0.2", "0.3"),
        ("1/3", "0.333333333333333"),
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 4 - 3", "3"),
        ("100 / 10 / 2", "5"),
        ("2 ** 3 ** 2", "512"),
        ("2^10 + 1", "1025"),
        ("-2 ** 2", "-4"),
        ("(-2) ** 2", "4"),
        ("2 ** -1", "0.5"),
        ("-3 * -(2)", "6"),
        ("--3", "3"),
        ("+5", "5"),
        ("7 // 2", "3"),
        ("7 % 4", "3"),
        ("2 × 3 ÷ 4 − 1", "0.5"),
        (".5 + 1.", "1.5"),
        ("1e3", "1000"),
        ("1.5E-3", "0.0015"),
        ("sqrt(16)", "4"),
        ("sqrt(2)", "1.4142135623731"),
        ("abs(-3)", "3"),
        ("round(2.567, 2)", "2.57"),
        ("round(7.6)", "8"),
        ("min(3, 1, 2) + max(1, 2)", "3"),
        ("floor(2.7) + ceil(2.1)", "5"),
        ("log(e)", "1"),
        ("ln(1)", "0"),
        ("log(8, 2)", "3"),
        ("log10(1000)", "3"),
        ("log2(8)", "3"),
        ("exp(0)", "1"),
        ("SIN(0) + cos(0) + tan(0)", "1"),
        ("2 * asin(1) - pi", "0"),
        ("2 * pi", "6.28318530717959"),
        ("factorial(20)", "2432902008176640000"),
        ("2 ** 100", "1267650600228229401496703205376"),
        ("10 ** 30 / 10 ** 28", "100"),
        ("123456789 * 987654321", "121932631112635269"),
        ("1e20 * 10", "1e+21"),
        ("3 / 2", "1.5"),
        ("0 * -1", "0"),
        (" + ".join(["(1)"] * 60), "60"),
    ],
)
async def test_results(expression: str, shown: str) -> None:
    result = await run(calculator, expression=expression)
    assert (result.status, result.observation) == (ToolStatus.OK, shown)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("9 ** 9 ** 9", "the result is too large"),
        ("9 ** 9 ** 9 ** 9", "the result is too large"),
        ("10 ** 999 * 10", "the result is too large"),
        ("1e308 * 10", "the result is too large"),
        ("1e999", "the result is too large"),
        ("exp(1000)", "the result is too large"),
        ("factorial(10 ** 9)", "the result is too large"),
        ("sqrt(10 ** 700)", "the result is too large"),
        ("sqrt(-1)", "can't be calculated: math domain error"),
        ("(-8) ** 0.5", "can't be calculated: the result is not a real number"),
        ("factorial(1.5)", "can't be calculated"),
        ("sqrt(1, 2)", "can't be calculated"),
        ("", "can't read '': it ends too early. Write plain arithmetic such as (3 + 4) * 2"),
        ("2 +", "it ends too early"),
        ("(2 + 3", "a ')' is missing"),
        ("2 3", "'3' was not expected"),
        ("2x", "'x' was not expected"),
        ("1,000 + 1", "',' was not expected"),
        ("x + 1", "'x' is unknown: variables can't be used"),
        ("sqrt 4", "sqrt needs its arguments in parentheses"),
        ("5 $ 3", "'$' was not expected"),
        ("3 + = 4", "a number was expected, got '='"),
        ("__import__('os').system('ls')", "a number was expected, got '__import__'"),
        ("(1).real", "was not expected"),
        ("[1]", "a number was expected, got '['"),
        ("(" * 60 + "1" + ")" * 60, "nested more than 50 deep"),
        ("-" * 100 + "1", "nested more than 50 deep"),
        ("1 + " * 400 + "1", "has 1601 characters; at most 1000 are allowed"),
    ],
)
async def test_mistakes_say_how_to_do_better(expression: str, message: str) -> None:
    result = await run(calculator, expression=expression)
    assert result.status is ToolStatus.ERROR
    assert message in result.observation


@pytest.mark.parametrize(
    "expression",
    ["9" * 900 + "**" + "9" * 90, "(9**900)" + "*(9**900)" * 50, "2**(2**(2**(2**9)))"],
)
def test_large_numbers_are_refused_before_they_are_computed(expression: str) -> None:
    with pytest.raises(ToolError, match="too large"):
        calculate(expression)  # Computed for real, each would outlast the test's time limit.


numbers = st.integers(0, 1000).map(str) | st.floats(0.001, 1000).map(lambda x: f"{x:.3f}")
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner)
        | st.builds("-{}".format, inner)
    ),
    max_leaves=8,
)


@given(expression=expressions)
def test_the_same_as_python(expression: str) -> None:
    """Python itself is the oracle: these expressions hold nothing but numbers and signs."""
    assume("--" not in expression)
    try:
        expected = eval(expression)
    except ZeroDivisionError:
        with pytest.raises(ToolError, match="division by zero"):
            calculate(expression)
        return
    assert math.isclose(calculate(expression), expected, rel_tol=1e-12, abs_tol=1e-12)


@given(text=st.text() | st.text("0123456789+-*/%^(). ,esqrtpi"))
def test_any_text_gives_a_finite_number_or_advice(text: str) -> None:
    with contextlib.suppress(ToolError):
        assert -math.inf < calculate(text) < math.inf
