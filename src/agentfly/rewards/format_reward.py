"""Reward for the form of a response."""

import re
from collections.abc import Callable, Sequence

from agentfly.errors import ConfigError
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.types import Message, Trajectory


def format_reward(
    *,
    pattern: str | re.Pattern[str] | None = None,
    tags: Sequence[str] = (),
    include_reasoning: bool = False,
    name: str = "format",
) -> FunctionReward[..., bool]:
    """Score 1 if the final response matches a pattern, or has the required tags, and else 0.

    A pattern must match the whole response, ignoring white space around it; in one given as a
    string, `.` matches line breaks too. Python holds the GIL while it matches patterns, so avoid
    nested repetitions such as `(a+)+`, which never finish on some texts.

    Tags must each be opened once and closed once, in the given order, one after another; any text
    may be inside and around them.

    >>> format_reward(tags=["answer"]).name
    'format'

    Args:
        pattern: A regular expression.
        tags: Names of tags, such as `["think", "answer"]`.
        include_reasoning: Whether to put reasoning that was separated from the response back in
            front of it as `<think>…</think>` before matching.
        name: Name in parts and metrics.
    """
    fits = _fits(pattern, tags)

    @reward(name=name, range=(0, 1))
    def score(trajectory: Trajectory) -> bool:
        if not trajectory.turns:
            return False
        return fits(_text(trajectory.turns[-1].message, include_reasoning).strip())

    return score


def _fits(pattern: str | re.Pattern[str] | None, tags: Sequence[str]) -> Callable[[str], bool]:
    if (pattern is None) == (not tags):
        raise ConfigError(
            f"format_reward takes either a pattern or a list of tags, got {pattern=} and {tags=}"
        )
    if pattern is None:
        return _in_order(tags)
    try:
        wanted = re.compile(pattern, re.DOTALL) if isinstance(pattern, str) else pattern
    except re.error as error:
        raise ConfigError(f"format_reward can't read the pattern {pattern!r}: {error}") from error
    return lambda text: wanted.fullmatch(text) is not None


def _in_order(tags: Sequence[str]) -> Callable[[str], bool]:
    """Return a check of tags without a pattern, so that no text can make it slow."""
    if isinstance(tags, str) or len(set(tags)) != len(tags):
        raise ConfigError(f"tags must be a list of different names, got {tags!r}")
    marks = [mark for tag in tags for mark in (f"<{tag}>", f"</{tag}>")]

    def fits(text: str) -> bool:
        places = [text.find(mark) for mark in marks]
        return places == sorted(places) and all(text.count(mark) == 1 for mark in marks)

    return fits


def _text(message: Message, include_reasoning: bool) -> str:  # noqa: FBT001
    if include_reasoning and message.reasoning is not None:
        return f"<think>{message.reasoning}</think>{message.content}"
    return message.content
