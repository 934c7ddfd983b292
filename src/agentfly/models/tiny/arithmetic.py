"""Questions of arithmetic with a known answer."""

import re
from dataclasses import dataclass
from random import Random

_ASK = (
    "What is {x}?",
    "What is {x}?",
    "What's {x}?",
    "How much is {x}?",
    "Compute {x}.",
    "Calculate {x}.",
    "Work out {x}.",
    "Please compute {x}.",
    "Find {x}.",
    "{x} = ?",
    "{x}",
)

_SPELLINGS = ("{a}{op}{b}", "{a}{op}{b}", "{a}{op}{b}", "{a} {op} {b}", "{a} {word} {b}")

_WORDS = {"+": "plus", "-": "minus", "*": "times"}

_EXPRESSION = re.compile(r"(-?\d{1,9}) ?([-+*]) ?(-?\d{1,9})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A question, what to type into a calculator, and what it then shows."""

    question: str
    expression: str
    value: str


def problem(rng: Random) -> Problem:
    """Return a training problem: mostly two digits, never one that the measure holds out."""
    while True:
        low, high = rng.choice(((10, 99), (10, 99), (10, 99), (1, 9), (100, 999), (1, 9999)))
        a, op, b = rng.randint(low, high), rng.choice("+-*"), rng.randint(low, high)
        if not held_out(a, b):
            return _asked(a, op, b, rng)


def held_out_problem(rng: Random) -> Problem:
    """Return a problem of the measure: two digits, of the pairs that training never shows."""
    while True:
        a, op, b = rng.randint(10, 99), rng.choice("+-*"), rng.randint(10, 99)
        if held_out(a, b):
            return _asked(a, op, b, rng)


def held_out(a: int, b: int) -> bool:
    """Return whether a pair of numbers is kept for the measure: every tenth is."""
    return (7 * a + 3 * b) % 10 == 0


def continued(first: Problem, rng: Random) -> Problem:
    """Return a problem that continues with the result of another."""
    op, b = rng.choice("+-*"), rng.randint(2, 99)
    expression = f"{first.value}{op}{b}"
    then = rng.choice(("Then {word} {b}.", "And that {word} {b}?", "Then take it {word} {b}."))
    question = then.format(word=_WORDS[op], b=b)
    return Problem(question=question, expression=expression, value=evaluate(expression) or "")


def evaluate(expression: str) -> str | None:
    """Return the sum, difference or product of two numbers; None for anything else.

    >>> evaluate("23*41"), evaluate("23*")
    ('943', None)
    """
    found = _EXPRESSION.fullmatch(expression.strip())
    if found is None:
        return None
    a, b = int(found[1]), int(found[3])
    return str({"+": a + b, "-": a - b, "*": a * b}[found[2]])


def _asked(a: int, op: str, b: int, rng: Random) -> Problem:
    expression = f"{a}{op}{b}"
    spelled = rng.choice(_SPELLINGS).format(a=a, op=op, b=b, word=_WORDS[op])
    question = rng.choice(_ASK).format(x=spelled)
    return Problem(question=question, expression=expression, value=evaluate(expression) or "")
