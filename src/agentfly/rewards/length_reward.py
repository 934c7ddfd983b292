"""Reward for short chains."""

from typing import Literal, get_args

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.types import Message, Trajectory, Turn

Unit = Literal["tokens", "characters"]


def length_reward(
    *, full_until: int, zero_at: int, unit: Unit = "tokens", name: str = "length"
) -> FunctionReward[..., float]:
    """Score 1 up to a length, then decrease linearly to 0.

    The length is that of the model's own text over all turns; prompts and tool results don't count.
    With a weight of w in `combine` this is, up to a constant, the soft punishment of over-long
    answers in DAPO (arXiv:2503.14476, equation 13).

    >>> score = length_reward(full_until=100, zero_at=200)   # 150 sampled tokens score 0.5

    Args:
        full_until: Greatest length that scores 1.
        zero_at: Length from which on it scores 0.
        unit: "tokens" as sampled, or "characters" of content, reasoning and tool calls, for servers
            that give no token ids.
        name: Name in parts and metrics.
    """
    _check(full_until, zero_at, unit)
    measure = _tokens if unit == "tokens" else _characters

    @reward(name=name, range=(0, 1))
    def score(trajectory: Trajectory) -> float:
        length = sum(map(measure, trajectory.turns))
        return min(1.0, max(0.0, (zero_at - length) / (zero_at - full_until)))

    return score


def _tokens(turn: Turn) -> int:
    if turn.completion is None:
        raise RewardError(
            f"turn {turn.index} has no token ids to count: its server gave text only. "
            'Use length_reward(unit="characters", ...)'
        )
    return len(turn.completion.token_ids)


def _characters(turn: Turn) -> int:
    return _written(turn.message) + sum(
        len(call.name) + len(call.arguments) for call in turn.message.tool_calls
    )


def _written(message: Message) -> int:
    return len(message.content) + len(message.reasoning or "")


def _check(full_until: int, zero_at: int, unit: str) -> None:
    if not 0 <= full_until < zero_at:
        raise ConfigError(
            f"length_reward needs 0 <= full_until < zero_at, got {full_until=} and {zero_at=}"
        )
    if unit not in get_args(Unit):
        raise ConfigError(f"unit must be one of {', '.join(get_args(Unit))}, got {unit!r}")
