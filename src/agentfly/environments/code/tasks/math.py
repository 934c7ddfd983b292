"""Generated questions whose answer is a number that has to be computed.

    level 1    What is 37*48+5?
    level 2    Let a = 37*48 and b = a-19. What is a*b?         two calls, variables kept
    level 3    How many primes are there from 100 to 250?

Held-out questions share no answer with the others; two kinds of level 3 are held out completely.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from agentfly.environments.code.tasks.program_template import is_held_out
from agentfly.types import content_id

Row = dict[str, Any]

LEVELS = (1, 2, 3)
_MAX_REPEATS = 1000
"""Draws without a new question after which generation stops."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the code that answers it, one cell per call."""

    text: str
    cells: tuple[str, ...]


Draw = Callable[[Random], Question]


def math_rows(*, levels: Sequence[int], count: int, held_out: bool, seed: int = 0) -> list[Row]:
    """Return at most `count` different questions, each with its `answer` and `cells`.

    >>> row = math_rows(levels=(1,), count=1, held_out=False)[0]
    >>> row["question"], row["answer"], row["cells"]
    ('What is (66+11)*25?', '1925', ['(66+11)*25'])
    """
    rows: dict[str, Row] = {}
    repeats = 0
    for row in _drawn(Random(f"math {seed} {held_out}"), levels, held_out=held_out):
        repeats = repeats + 1 if row is None or row["id"] in rows else 0
        if row is not None:
            rows.setdefault(row["id"], row)
        if len(rows) >= count or repeats > _MAX_REPEATS:
            break
    return list(rows.values())


def _drawn(rng: Random, levels: Sequence[int], *, held_out: bool) -> Iterator[Row | None]:
    """Draw rows endlessly; None for one of the other side of the split."""
    while True:
        level = rng.choice(list(levels))
        kinds = (*_KINDS[level], *(_HELD_OUT_KINDS.get(level, ()) if held_out else ()))
        row = _row(rng.choice(kinds)(rng), level)
        yield row if held_out is is_held_out(row["answer"], one_in=8) else None


def _row(question: Question, level: int) -> Row:
    return {
        "id": f"math-{content_id({'question': question.text})}",
        "question": question.text,
        "answer": str(_value(question.cells)),
        "cells": list(question.cells),
        "level": level,
    }


def _value(cells: tuple[str, ...]) -> object:
    """Run code of this very module and return the value of its last line."""
    variables: dict[str, Any] = {}
    *statements, last = "\n".join(cells).split("\n")
    exec("\n".join(statements), variables)
    return eval(last, variables)


def _expression(rng: Random) -> Question:
    a, b, c = (rng.randint(11, 99) for _ in range(3))
    forms = (f"{a}*{b}", f"{a}*{b}+{c}", f"{a}*{b}-{c}", f"{a}+{b}*{c}", f"({a}+{b})*{c}")
    text = rng.choice(forms)
    return Question(f"What is {text}?", (text,))


def _two_variables(rng: Random) -> Question:
    first = f"{rng.randint(11, 99)}*{rng.randint(11, 99)}"
    second = f"a{rng.choice('+-')}{rng.randint(11, 99)}"
    asked = rng.choice(("a*b", "a+b", "a*b-a", "b*b-a"))
    text = f"Let a = {first} and b = {second}. What is {asked}?"
    return Question(text, (f"a = {first}\nb = {second}", asked))


def _sum_of_multiples(rng: Random) -> Question:
    k, n = rng.randint(3, 29), rng.randint(100, 999)
    return Question(
        f"What is the sum of all multiples of {k} below {n}?", (f"sum(range(0,{n},{k}))",)
    )


def _primes(rng: Random) -> Question:
    low, high = rng.randint(10, 200), rng.randint(300, 999)
    test = "all(n % d for d in range(2, int(n ** 0.5) + 1))"
    code = f"sum({test} for n in range({low}, {high} + 1))"
    return Question(f"How many primes are there from {low} to {high}?", (code,))


def _remainder(rng: Random) -> Question:
    base, power, by = rng.randint(3, 99), rng.randint(20, 99), rng.randint(101, 999)
    text = f"What is the remainder of {base}**{power} divided by {by}?"
    return Question(text, (f"{base}**{power} % {by}",))


def _digit_sum(rng: Random) -> Question:
    base, power = rng.randint(2, 99), rng.randint(20, 60)
    return Question(
        f"What is the sum of the digits of {base}**{power}?",
        (f"sum(int(d) for d in str({base}**{power}))",),
    )


def _divisors(rng: Random) -> Question:
    n = rng.randint(100, 9999)
    return Question(
        f"What is the sum of all divisors of {n}?",
        (f"sum(d for d in range(1, {n} + 1) if {n} % d == 0)",),
    )


def _divisible_by_either(rng: Random) -> Question:
    a, b, n = rng.randint(3, 12), rng.randint(13, 19), rng.randint(200, 999)
    return Question(
        f"How many numbers from 1 to {n} are divisible by {a} or {b}?",
        (f"sum(k % {a} == 0 or k % {b} == 0 for k in range(1, {n} + 1))",),
    )


def _recurrence(rng: Random) -> Question:
    a, b, n = rng.randint(1, 9), rng.randint(1, 9), rng.randint(10, 30)
    text = f"A sequence begins {a}, {b}; each later term is the sum of the two before it. "
    code = f"a, b = {a}, {b}\nfor _ in range({n} - 1): a, b = b, a + b"
    return Question(f"{text}What is term {n}, counted from 1?", (code, "a"))


def _common_multiple(rng: Random) -> Question:
    a, b, c = (rng.randint(6, 60) for _ in range(3))
    return Question(
        f"What is the smallest number above 0 that {a}, {b} and {c} all divide?",
        ("import math", f"math.lcm({a}, {b}, {c})"),
    )


def _alternating_sum(rng: Random) -> Question:
    n = rng.randint(20, 400)
    return Question(
        f"What is 1 - 4 + 9 - 16 + ..., the squares of 1 to {n} with alternating signs?",
        (f"sum((-1) ** (k + 1) * k * k for k in range(1, {n} + 1))",),
    )


_KINDS: dict[int, tuple[Draw, ...]] = {
    1: (_expression,),
    2: (_two_variables,),
    3: (
        _sum_of_multiples,
        _primes,
        _remainder,
        _digit_sum,
        _divisors,
        _divisible_by_either,
        _recurrence,
    ),
}
_HELD_OUT_KINDS: dict[int, tuple[Draw, ...]] = {3: (_common_multiple, _alternating_sum)}
