"""Conversion of a reward function's return value to a Score."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from agentfly.errors import RewardError
from agentfly.runtime.names import suggestion
from agentfly.types import Score

EXPECTED = "a finite number, a bool, a dict with 'reward', or a Score"


def read_score(returned: object, *, reward: str, turns: int) -> Score:
    """Read a bool, a number (numpy's included), a dict with `reward`, or a Score.

    In a dict, `per_turn` is a list with one number for each of the chain's `turns`, and all other
    keys are parts.

    >>> read_score({"reward": True, "length": 12}, reward="reward 'r'", turns=1)
    Score(value=1.0, parts={'length': 12.0}, per_turn=None)
    """
    value: object
    if isinstance(returned, Score):
        value, parts, per_turn = returned.value, returned.parts, returned.per_turn
    elif isinstance(returned, Mapping):
        value, parts, per_turn = _unpack(returned, reward)
    else:
        value, parts, per_turn = returned, {}, None
    return Score(
        value=read_number(value, f"{reward} returned", EXPECTED),
        parts={name: _part(name, part, reward) for name, part in parts.items()},
        per_turn=None if per_turn is None else _per_turn(per_turn, reward, turns),
    )


def read_number(value: object, said: str, expected: str) -> float:
    """Read one finite number, or raise RewardError that begins with `said`.

    >>> read_number(True, "reward 'r' returned", "a number")
    1.0
    """
    # numpy's scalars and tensors without axes; asking for the shape needs no import of either.
    plain = value.item() if getattr(value, "shape", None) == () else value  # type: ignore[attr-defined]
    if not isinstance(plain, Real):
        way_out = ": return float(...) of it" if isinstance(value, str) else ""
        raise RewardError(f"{said} {_shown(value)}; expected {expected}{way_out}")
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardError(f"{said} {number}, which is not finite; expected {expected}")
    return number


def _unpack(returned: Mapping[Any, Any], reward: str) -> tuple[Any, dict[str, Any], Any]:
    if "reward" not in returned:
        keys = suggestion("reward", map(str, returned))
        raise RewardError(f"{reward} returned a dict without 'reward'. {keys} Expected {EXPECTED}")
    parts = {str(k): v for k, v in returned.items() if k not in ("reward", "per_turn")}
    return returned["reward"], parts, returned.get("per_turn")


def _part(name: str, value: object, reward: str) -> float:
    expected = "a finite number: put notes for people into context.metadata"
    return read_number(value, f"{reward} returned the part {name!r} =", expected)


def _per_turn(values: object, reward: str, turns: int) -> tuple[float, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise RewardError(
            f"{reward} returned per_turn = {_shown(values)}; expected a list of {turns} numbers"
        )
    if len(values) != turns:
        raise RewardError(
            f"{reward} returned {len(values)} per-turn values for a chain of {turns} turns; "
            "expected one for each turn"
        )
    expected = "a finite number"
    return tuple(
        read_number(value, f"{reward} returned per_turn[{i}] =", expected)
        for i, value in enumerate(values)
    )


def _shown(value: object) -> str:
    """Return a short text of a value, with its type."""
    if value is None:
        return "None (does every path of it return something?)"
    text = repr(value)
    return f"{type(value).__name__}: {text if len(text) <= 80 else text[:77] + '...'}"
