"""Questions for `tiny_calculator.toml`: one in three needs the calculator twice.

    What is 23*41?
    What is 23*41? Then minus 7.

A run's settings name these functions as `tiny_calculator_tasks:training` and `:held_out`. The two
factors of a held-out question never come together in training.
"""

from itertools import combinations
from random import Random

HELD_OUT, TRAINING = 64, 1024
SEED = 7


def training() -> list[dict[str, str]]:
    """Return the questions to train on."""
    return questions()[HELD_OUT:]


def held_out() -> list[dict[str, str]]:
    """Return the questions to measure with."""
    return questions()[:HELD_OUT]


def questions() -> list[dict[str, str]]:
    """Ask about pairs of numbers, none of them twice, every third time with a second step."""
    rng = Random(SEED)
    pairs = rng.sample(list(combinations(range(11, 100), 2)), HELD_OUT + TRAINING)
    return [ask(a, b, rng, twice=number % 3 == 2) for number, (a, b) in enumerate(pairs)]


def ask(a: int, b: int, rng: Random, *, twice: bool) -> dict[str, str]:
    """Make a row of a question and its answer."""
    question = f"What is {a}*{b}?"
    if not twice:
        return {"question": question, "answer": str(a * b)}
    c = rng.randint(2, 99)
    word, answer = rng.choice([("plus", a * b + c), ("minus", a * b - c)])
    return {"question": f"{question} Then {word} {c}.", "answer": str(answer)}
