"""Built-in tools: `calculator`, which parses arithmetic instead of using `eval`, and `finish`."""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import NoReturn

from agentfly.errors import ToolError
from agentfly.tools.function import tool
from agentfly.types import ToolResult


@tool
def finish(answer: str) -> ToolResult:
    """Finish the task by handing in your final answer. Nothing can be done after this.

    Args:
        answer: The final answer.
    """
    return ToolResult(observation=answer, ends_chain=True)


answer = tool(finish.function, name="answer")
"""Same tool as `finish`, under the name that some prompts ask for."""


Number = int | float

MAX_LENGTH = 1000
MAX_DEPTH = 50
MAX_DIGITS = 1000
"""Maximum digits of any intermediate integer; larger powers are refused before computing."""
SHOWN_DIGITS = 15
"""Digits shown of a float: the exact ones, so that 0.1 + 0.2 is 0.3."""


@tool(timeout=5.0)
def calculator(expression: str) -> str:
    """Calculate an arithmetic expression.

    Args:
        expression: For example (3 + 4) * 2 ** 5 / 7. Operators + - * / // % ** and parentheses,
            the constants pi and e, functions such as sqrt, abs, round, min, max, floor, ceil,
            log, exp, sin, cos, tan.
    """
    return _shown(calculate(expression))


def calculate(expression: str) -> Number:
    """Evaluate an expression, or raise a ToolError that says how to write it.

    >>> calculate("2 * (3 + 4) ^ 2")
    98
    """
    if len(expression) > MAX_LENGTH:
        raise ToolError(
            f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are allowed: "
            "split it into smaller ones"
        )
    try:
        return _Parser(expression).parse()
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the result is too large") from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"can't be calculated: {error}") from None


class _Parser:
    """Precedence-climbing parser that calculates while it parses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._next = 0
        self._depth = 0

    def parse(self) -> Number:
        value = self._expression(0)
        if self._peek():
            self._refuse(f"{self._peek()!r} was not expected")
        return value

    def _expression(self, binding: int) -> Number:
        """Parse operands and operators that bind more tightly than `binding`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ToolError(f"the expression is nested more than {MAX_DEPTH} deep: split it")
        value = self._operand()
        while _BINDING.get(self._peek(), 0) > binding:
            symbol = self._take()
            # A power is right-associative: 2 ** 3 ** 2 is 2 ** 9.
            right = self._expression(_BINDING[symbol] - (symbol == "**"))
            value = _bounded(_OPERATORS[symbol](value, right))
        self._depth -= 1
        return value

    def _operand(self) -> Number:
        token = self._take()
        if token in ("+", "-"):
            value = self._expression(_SIGN_BINDING)
            return -value if token == "-" else value
        if token == "(":
            return self._closed(self._expression(0))
        if token[:1].isdigit() or token.startswith("."):
            return _number(token)
        if token[:1].isalpha():
            return self._named(token.lower())
        self._refuse(f"a number was expected, got {token!r}" if token else "it ends too early")

    def _named(self, name: str) -> Number:
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        function = _FUNCTIONS.get(name)
        if function is None:
            self._refuse(f"{name!r} is unknown: variables can't be used")
        if self._take() != "(":
            self._refuse(f"{name} needs its arguments in parentheses")
        arguments = [self._expression(0)]
        while self._peek() == ",":
            self._take()
            arguments.append(self._expression(0))
        return self._closed(_bounded(function(*arguments)))

    def _closed(self, value: Number) -> Number:
        if self._take() != ")":
            self._refuse("a ')' is missing")
        return value

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _refuse(self, why: str) -> NoReturn:
        raise ToolError(
            f"can't read {self._text!r}: {why}. Write plain arithmetic such as (3 + 4) * 2, with "
            f"+ - * / // % **, parentheses, pi, e and {', '.join(_FUNCTIONS)}"
        )


_TOKEN = re.compile(
    r"\s*(?:(?P<token>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|\*\*|//|[-+*/%(),^×÷−·])"
    r"|(?P<stranger>\S))"
)
_SPELLINGS = {"^": "**", "×": "*", "·": "*", "÷": "/", "−": "-"}


def _tokens(text: str) -> list[str]:
    """Split a text into tokens; unknown characters are tokens too, refused by the parser."""
    found = [match["token"] or match["stranger"] for match in _TOKEN.finditer(text)]
    return [_SPELLINGS.get(token, token) for token in found]


def _number(token: str) -> Number:
    return _bounded(int(token) if token.isdigit() else float(token))


def _bounded(value: Number | complex) -> Number:
    if isinstance(value, complex):
        raise ValueError("the result is not a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise OverflowError
    if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
        raise OverflowError
    return value


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return a // b
    return a / b


def _power(a: Number, b: Number) -> Number | complex:
    # Checked before computing: 9 ** 9 ** 9 would take all memory.
    whole = isinstance(a, int) and isinstance(b, int) and abs(a) > 1
    if whole and b * math.log10(abs(a)) > MAX_DIGITS:
        raise OverflowError
    result: Number | complex = a**b
    return result


def _factorial(n: Number) -> int:
    if n > MAX_DIGITS // 2:
        raise OverflowError
    return math.factorial(int(n) if n == int(n) else n)  # type: ignore[arg-type]


_OPERATORS: Mapping[str, Callable[[Number, Number], Number | complex]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": _power,
}
_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2, "**": 4}
_SIGN_BINDING = 3
"""A sign binds less than a power, -2 ** 2 is -4, and more than a product."""
_CONSTANTS = {"pi": math.pi, "e": math.e}
_FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "sqrt": math.sqrt,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "floor": math.floor,
    "ceil": math.ceil,
    "log": math.log,
    "ln": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "factorial": _factorial,
}


def _shown(value: Number) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**SHOWN_DIGITS:
        value = int(value)
    return str(value) if isinstance(value, int) else f"{value:.{SHOWN_DIGITS}g}"
