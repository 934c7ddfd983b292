"""Mask policies: which of the sampled tokens carry loss. A policy can only switch tokens off.

A policy is a plain function from a chain's turns to one entry for each of them: True (all of the
turn's tokens), False (none), or one bool for each token of its completion. Context tokens have no
place in it, so no policy can reach them.

    keep = mask_policy("no_reasoning")(trajectory.turns)     # ((False, False, True), (True, …))
"""

from collections.abc import Callable, Sequence
from typing import Any

from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up
from agentfly.runtime.signature import name_of, unwrapped
from agentfly.types import Keep, MaskPolicy, Turn

CheckedMask = Callable[[Sequence[Turn]], tuple[tuple[bool, ...], ...]]
"""From a chain's turns to one bool for each sampled token of each turn."""


def all_sampled(turns: Sequence[Turn]) -> Sequence[Keep]:
    """Keep every token that the model sampled."""
    return [True] * len(turns)


def no_reasoning(turns: Sequence[Turn]) -> Sequence[Keep]:
    """Leave out the tokens of reasoning."""
    return [_outside_spans(turn) for turn in turns]


def last_turn_only(turns: Sequence[Turn]) -> Sequence[Keep]:
    """Keep the last turn alone."""
    return [turn is turns[-1] for turn in turns]


def valid_calls_only(turns: Sequence[Turn]) -> Sequence[Keep]:
    """Leave out turns with an invalid call, or an action in text that the environment refused.

    A call is invalid if it was malformed, of no tool, had wrong arguments or was refused.
    """
    return [not (turn.invalid or any(r.status.invalid for r in turn.results)) for turn in turns]


def per_turn(function: Callable[[Turn], Keep]) -> MaskPolicy:
    """Make a policy from a function of one turn.

    >>> policy = per_turn(lambda turn: turn.index > 0)
    """

    def policy(turns: Sequence[Turn]) -> Sequence[Keep]:
        return [function(turn) for turn in turns]

    # Messages name it by what the user wrote.
    policy.__module__ = getattr(function, "__module__", __name__)
    policy.__name__ = name_of(function)
    return policy


MASK_POLICIES: dict[str, MaskPolicy] = {
    "all_sampled": all_sampled,
    "no_reasoning": no_reasoning,
    "last_turn_only": last_turn_only,
    "valid_calls_only": valid_calls_only,
}
"""The policies that can be chosen by name."""


def mask_policy(policy: str | MaskPolicy) -> CheckedMask:
    """Return a policy by name, or a function over turns, with its results checked.

    >>> mask_policy("all_sampled")([])
    ()
    """
    function = look_up(policy, MASK_POLICIES, "mask policy") if isinstance(policy, str) else policy
    if not callable(function):
        raise ConfigError(
            f"a mask policy is a name or a function over turns, got {policy!r}. "
            f"Known: {', '.join(MASK_POLICIES)}"
        )

    def checked(turns: Sequence[Turn]) -> tuple[tuple[bool, ...], ...]:
        return apply_mask(function, turns)

    return checked


def apply_mask(policy: MaskPolicy, turns: Sequence[Turn]) -> tuple[tuple[bool, ...], ...]:
    """Return one bool for each sampled token of each turn; check the policy's result."""
    kept = policy(turns)
    if not _is_list(kept) or len(kept) != len(turns):
        raise ConfigError(
            f"a mask policy returns one entry for each of the {len(turns)} turns, "
            f"got {_got(kept)}. Wrap a function that looks at one turn in per_turn(...)"
        )
    return tuple(_mask(turn, entry) for turn, entry in zip(turns, kept, strict=True))


def policy_name(policy: MaskPolicy) -> str:
    """Return `module:name` of the function that a policy was written as.

    >>> policy_name(last_turn_only)
    'agentfly.chat.mask:last_turn_only'
    """
    return f"{unwrapped(policy).__module__}:{name_of(policy)}"


def _mask(turn: Turn, keep: Any) -> tuple[bool, ...]:
    length = len(turn.completion.token_ids) if turn.completion else 0
    if isinstance(keep, bool):
        return (keep,) * length
    if not _is_list(keep) or not all(isinstance(token, bool) for token in keep):
        raise ConfigError(
            f"a mask policy gives a bool, or a list of bools, for a turn; got {_got(keep)} "
            f"for turn {turn.index}"
        )
    if len(keep) != length:
        raise ConfigError(
            f"turn {turn.index} has {length} sampled tokens, but the mask policy gave {len(keep)} "
            "bools: it needs one for each token of the completion"
        )
    return tuple(keep)


def _outside_spans(turn: Turn) -> list[bool]:
    length = len(turn.completion.token_ids) if turn.completion else 0
    thought = {i for start, end in turn.reasoning_spans for i in range(start, end)}
    return [i not in thought for i in range(length)]


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _got(value: object) -> str:
    size = f" of {len(value)}" if isinstance(value, Sequence) else ""
    return f"{type(value).__name__}{size}"
