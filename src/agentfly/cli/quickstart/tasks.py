"""The quick start's tasks: arithmetic that a small model can't do without a calculator.

Every question follows one worked example, so that the model has seen one call:

    user       What is 12*34?
    assistant  <calculator>12*34</calculator>
    user       <information>408</information>
    assistant  The answer is 408.
    user       What is 57*83?

Three in four questions are products of two numbers of two digits, the others sums and differences
of three digits. No pair of numbers is in both a held-out question and a training question.
"""

from collections.abc import Sequence
from itertools import combinations
from random import Random
from typing import Any

from agentfly.tools.builtin import calculate

Row = dict[str, Any]

HELD_OUT = 64
"""Number of held-out questions."""
PRODUCTS, SUMS = 432, 144
"""Number of questions of each kind, held-out ones included; half of the sums are differences."""

WORKED_EXAMPLE = (
    {"role": "user", "content": "What is 12*34?"},
    {"role": "assistant", "content": "<calculator>12*34</calculator>"},
    {"role": "user", "content": "<information>408</information>"},
    {"role": "assistant", "content": "The answer is 408."},
)
"""One call in the form of an agent of kind `tags`."""

_SEED = 2026
_FACTORS = [n for n in range(13, 99) if n % 10]
"""Factors without the example's 12 and without round numbers: 30*40 needs no calculator."""
_SUMMANDS = range(101, 999)


def training() -> list[Row]:
    """Return the 512 training questions."""
    return _questions()[HELD_OUT:]


def held_out() -> list[Row]:
    """Return the held-out questions.

    >>> row = held_out()[0]
    >>> row["messages"][-1]["content"], row["answer"]
    ('What is 66*13?', '858')
    """
    return _questions()[:HELD_OUT]


def _questions() -> list[Row]:
    rng = Random(_SEED)
    products = _expressions(_FACTORS, "*", PRODUCTS, rng)
    sums = _expressions(_SUMMANDS, "+-", SUMS, rng)
    mixed = rng.sample(products + sums, PRODUCTS + SUMS)
    return [_row(expression) for expression in mixed]


def _expressions(numbers: Sequence[int], operators: str, count: int, rng: Random) -> list[str]:
    """Return expressions over distinct pairs of numbers, each pair in one order only."""
    pairs = rng.sample(list(combinations(numbers, 2)), count)
    return [rng.choice(operators).join(map(str, rng.sample(pair, 2))) for pair in pairs]


def _row(expression: str) -> Row:
    question = {"role": "user", "content": f"What is {expression}?"}
    return {
        "id": expression,
        "messages": [*WORKED_EXAMPLE, question],
        "answer": str(calculate(expression)),
    }
