r"""Numeric answers: numbers as people and models write them, and the reward that compares them.

| written | read as |
|---|---|
| `42`, `-3.5`, `.5`, `−7` | itself; a sign directly behind a digit is not one: `10-20` ends in 20 |
| `1,000,000`, `1{,}000` | commas between groups of three belong to the number |
| `$5`, `-$5`, `5 €` | 5, -5, 5: currencies are ignored |
| `3/4`, `1 1/2`, `\frac{3}{4}` | 0.75, 1.5, 0.75 |
| `1.5e-3`, `2 × 10^5`, `2 \times 10^{5}`, `10^5` | 0.0015, 200000, 200000, 100000 |
| `50%`, `50\%` | 50, marked as a percentage |

Digits that follow a letter (`H2`, `x_1`) are part of a name. A number too large for a float, and a
fraction over zero, are no numbers.
"""

import math
import re
from dataclasses import dataclass

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.reference_answers import gold_answers, marked_answer
from agentfly.types import Task


@dataclass(frozen=True, slots=True)
class Number:
    """Number as written."""

    value: float
    percent: bool = False

    def is_close(self, other: "Number", *, rel_tol: float, abs_tol: float) -> bool:
        """Compare two numbers; if only one is a percentage, the other may mean either form.

        >>> half = Number(50.0, percent=True)
        >>> [half.is_close(Number(x), rel_tol=0, abs_tol=0) for x in (50.0, 0.5, 0.05)]
        [True, True, False]
        """
        pairs = [(self.value, other.value)]
        if self.percent != other.percent:
            pairs.append((self.as_fraction, other.as_fraction))
        return any(math.isclose(*pair, rel_tol=rel_tol, abs_tol=abs_tol) for pair in pairs)

    @property
    def as_fraction(self) -> float:
        """Value; for a percentage, a hundredth of it."""
        return self.value / 100 if self.percent else self.value


def last_number(text: str) -> Number | None:
    """Return the last number in a text, or None if there is none.

    >>> last_number("She pays 3 * $1,200.50 = $3,601.50.")
    Number(value=3601.5, percent=False)
    """
    found = [n for match in _NUMBER.finditer(_plain(text)) if (n := _read(match)) is not None]
    return found[-1] if found else None


_UNSIGNED = r"(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\.)\.\d+)(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(
    rf"""
    (?<!\w)(?<!\d\.)                    # not inside a name or another number
    (?P<sign>(?<![)\]}}])[-+])?
    (?:
        (?:(?P<whole>\d+)[ ])?(?P<top>{_UNSIGNED})\s?/\s?(?P<bottom>{_UNSIGNED})
      | (?P<single>{_UNSIGNED})
    )
    \s?(?P<percent>%)?
    """,
    re.VERBOSE | re.ASCII,
)

_POWER_OF_TEN = r"10\s?(?:\^|\*\*)\s?\{?\s?([-+]?\d+)\}?"
_SPELLINGS = [
    (re.compile("\u2212"), "-"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\{([\d.,]+)\}\{([\d.,]+)\}"), r"\1/\2"),
    (re.compile(rf"(?<=\d)\s?(?:×|\*|x|\\times|\\cdot)\s?{_POWER_OF_TEN}"), r"e\1"),
    (re.compile(rf"(?<![\w.]){_POWER_OF_TEN}", re.ASCII), r"1e\1"),
    (re.compile(r"([-+])[$€£¥₹]"), r"\1"),
    (re.compile(r"[$€£¥₹]"), " "),
]


def _plain(text: str) -> str:
    """Rewrite the many spellings of numbers into those that `_NUMBER` matches."""
    for spelling, plain in _SPELLINGS:
        text = spelling.sub(plain, text)
    return text


def _read(match: re.Match[str]) -> Number | None:
    try:
        value = _magnitude(match)
    except ZeroDivisionError:
        return None
    if not math.isfinite(value):
        return None
    signed = -value if match["sign"] == "-" else value
    return Number(signed, percent=match["percent"] is not None)


def _magnitude(match: re.Match[str]) -> float:
    if match["single"] is not None:
        return _float(match["single"])
    return _float(match["whole"] or "0") + _float(match["top"]) / _float(match["bottom"])


def _float(digits: str) -> float:
    return float(digits.replace(",", ""))


def numeric_match(
    *,
    field: str = "answer",
    rel_tol: float = 1e-9,
    abs_tol: float = 0.0,
    name: str = "numeric_match",
) -> FunctionReward[..., bool]:
    r"""Score 1 if the response's number is the right one, and else 0.

    On both sides the last number counts: of what follows the last `####`, else of the last
    `\boxed{}`, else of the whole text. So GSM8K's solutions can be given as they are. The module's
    table says how numbers are read (`1,000`, `$5`, `50%`, `3/4`, `2e5`). Two numbers are the same
    as in `math.isclose`: within `abs_tol`, or within `rel_tol` of the larger one. The defaults are
    strict: where answers may be rounded, `0.333` for `1/3`, set `rel_tol=1e-3`.

    >>> gsm8k = Task(id="a", messages=(), fields={"answer": "24 * 50 = 1200. #### 1,200"})
    >>> numeric_match()("That makes $1200.", gsm8k)
    True

    Args:
        field: The task's field with the right answer, or with a list of alternatives.
        rel_tol: Relative tolerance.
        abs_tol: Absolute tolerance.
        name: Name in parts and metrics.
    """
    for tolerance in (rel_tol, abs_tol):
        if not 0 <= tolerance < math.inf:
            raise ConfigError(f"a tolerance must be at least 0 and finite, got {tolerance!r}")

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        golds = [_gold(text, field) for text in gold_answers(task, field)]
        said = last_number(marked_answer(final_response))
        return said is not None and any(
            said.is_close(gold, rel_tol=rel_tol, abs_tol=abs_tol) for gold in golds
        )

    score.reads = (field,)
    return score


def _gold(text: str, field: str) -> Number:
    number = last_number(marked_answer(text))
    if number is None:
        raise RewardError(f"the field {field!r} holds no number: {text!r}")
    return number
