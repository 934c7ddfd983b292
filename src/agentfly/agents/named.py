"""From names in settings or on the command line to tools, rewards, kinds, environments and masks.

A name is that of something ready-made, or `module:name` of a user's own:

    find_tool("calculator")
    find_reward("my_rewards:correct", base=Path("experiments"))     # experiments/my_rewards.py
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.agents.kind import KINDS
from agentfly.chat import MASK_POLICIES, MaskPolicy
from agentfly.config import import_named
from agentfly.errors import ConfigError, boundary
from agentfly.rewards import (
    exact_match,
    math_equivalence,
    numeric_match,
    qa_exact_match,
    qa_f1,
)
from agentfly.runtime.names import suggestion
from agentfly.tools import answer, calculator, finish
from agentfly.types import AgentKind, EnvSpec, GroupReward, Reward, Tool
from agentfly.types.environment import is_environment_class


@dataclass(frozen=True, slots=True, kw_only=True)
class _Noun:
    """One sort of thing that can be named."""

    what: str
    fits: Callable[[Any], bool]
    """Tells such a thing from others."""
    way_out: str
    """What to do about a thing that is none."""
    ready_made: Mapping[str, Any]

    def find(self, name: str, base: Path | None) -> Any:
        """Look a name up, or import it."""
        if name in self.ready_made:
            return self.ready_made[name]
        if ":" not in name:
            raise ConfigError(
                f"unknown {self.what} {name!r}. {suggestion(name, self.ready_made)} "
                "One of your own is named module:name"
            )
        found = import_named(name, self.what, base=base, fits=self.fits)
        if not self.fits(found):
            kind = type(found).__name__
            raise ConfigError(f"{name} is no {self.what}, but of type {kind}: {self.way_out}")
        return found


def _has(*parts: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, part) for part in parts)


def _makes_environments(value: Any) -> bool:
    if isinstance(value, type):
        return is_environment_class(value)
    return callable(value) or isinstance(value, EnvSpec)


_TOOL = _Noun(
    what="tool",
    fits=_has("spec", "environments", "run"),
    way_out="decorate it with @tool",
    ready_made={"answer": answer, "calculator": calculator, "finish": finish},
)
_REWARD = _Noun(
    what="reward",
    fits=_has("score", "environments"),
    way_out="decorate it with @reward, or name the reward that it makes",
    ready_made={
        "exact_match": exact_match,
        "math_equivalence": math_equivalence,
        "numeric_match": numeric_match,
        "qa_exact_match": qa_exact_match,
        "qa_f1": qa_f1,
    },
)
_GROUP_REWARD = _Noun(
    what="group reward",
    fits=_has("score_group"),
    way_out="decorate it with @group_reward",
    ready_made={},
)
_KIND = _Noun(
    what="kind of agent",
    fits=_has("open", "read", "reply"),
    way_out="inherit from agentfly.ToolCalling, or write `open`, `read` and `reply`",
    ready_made=KINDS,
)
_ENVIRONMENT = _Noun(
    what="environment",
    fits=_makes_environments,
    way_out="name a class with `reset`, `step` and `close`, or a function that makes an instance",
    ready_made={},
)
_MASK = _Noun(
    what="mask policy",
    fits=callable,
    way_out="name a function over turns",
    ready_made=MASK_POLICIES,
)


def find_tool(name: str, *, base: Path | None = None) -> Tool:
    """Return the tool of a name. Modules are looked for in `base` first.

    >>> find_tool("calculator").spec.name
    'calculator'
    """
    found: Tool = _TOOL.find(name, base)
    return found


def find_reward(name: str, *, base: Path | None = None) -> Reward:
    """Return the reward of a name; a ready-made one with its defaults.

    >>> find_reward("exact_match").name
    'exact_match'
    """
    found = _REWARD.find(name, base)
    reward: Reward = found() if name in _REWARD.ready_made else found
    return reward


def find_group_reward(name: str, *, base: Path | None = None) -> GroupReward:
    """Return the group reward of a name."""
    found: GroupReward = _GROUP_REWARD.find(name, base)
    return found


def find_kind(name: str, *, base: Path | None = None) -> AgentKind:
    """Return the kind of agent of a name; a class is called without arguments."""
    found = _KIND.find(name, base)
    with boundary(ConfigError, f"calling {name} without arguments"):
        kind: AgentKind = found() if isinstance(found, type) else found
    return kind


def find_environment(name: str, *, base: Path | None = None) -> EnvSpec:
    """Return the environment of a name: a class, a function that makes an instance, or a spec."""
    found = _ENVIRONMENT.find(name, base)
    return found if isinstance(found, EnvSpec) else EnvSpec(found)


def find_mask(name: str, *, base: Path | None = None) -> MaskPolicy:
    """Return the mask policy of a name."""
    found: MaskPolicy = _MASK.find(name, base)
    return found
