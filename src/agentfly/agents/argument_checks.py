"""Checking what a user passes, while it is still easy to say what was meant."""

from collections.abc import Callable, Sequence
from typing import Any

from agentfly.errors import ConfigError
from agentfly.types import EnvSpec, GroupReward, Reward, Tool


def require_tools(tools: Sequence[Tool]) -> Sequence[Tool]:
    """Refuse a lone tool."""
    if not isinstance(tools, Sequence):
        raise ConfigError(f"tools is a list: write tools=[{_name(tools)}]")
    return tools


def require_reward(reward: Reward | None) -> Reward | None:
    """Refuse a plain function, and a group reward."""
    if reward is None or hasattr(reward, "score"):
        return reward
    if hasattr(reward, "score_group"):
        raise ConfigError(f"{_name(reward)} scores whole groups: pass it as group_reward=")
    raise ConfigError(f"{_name(reward)} is not a reward: decorate it with @reward")


def require_group_reward(reward: GroupReward | None) -> GroupReward | None:
    """Refuse a plain function, and a reward of single chains."""
    if reward is None or hasattr(reward, "score_group"):
        return reward
    if hasattr(reward, "score"):
        raise ConfigError(f"{_name(reward)} scores single chains: pass it as reward=")
    raise ConfigError(f"{_name(reward)} is not a group reward: decorate it with @group_reward")


def environment_spec(environment: Callable[..., Any] | EnvSpec | None) -> EnvSpec | None:
    """Take a class, a function that makes an instance, or a spec."""
    if environment is None or isinstance(environment, EnvSpec):
        return environment
    if not callable(environment):
        raise ConfigError(
            "environment= takes a class, a function that makes an instance, or an EnvSpec, not an "
            f"instance: got {environment!r}"
        )
    return EnvSpec(environment)


def require_count(name: str, count: object, *, at_least: int) -> None:
    """Refuse what is no whole number, or too small a one."""
    if not isinstance(count, int) or count < at_least:
        raise ConfigError(f"{name} must be a whole number of at least {at_least}, got {count!r}")


def _name(value: object) -> str:
    return getattr(value, "__name__", repr(value))
