"""Registry of tools, rewards, kinds and mask policies by name, for settings and command line.

A name is a built-in one, `module:name` of a user's own code, or an entry point of an installed
package:

    find_tools("calculator")
    find_tools("shop:Inventory")                                    # its methods
    find_reward("my_rewards:correct", base=Path("experiments"))     # experiments/my_rewards.py
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentfly.agents.kind import KINDS
from agentfly.chat import MASK_POLICIES, MaskPolicy
from agentfly.config import PluginKind
from agentfly.errors import ConfigError, boundary
from agentfly.rewards import (
    exact_match,
    math_equivalence,
    numeric_match,
    qa_exact_match,
    qa_f1,
)
from agentfly.tools import Toolbox, answer, calculator, finish
from agentfly.tools.methods import is_plain_callable, make_tools
from agentfly.types import AgentKind, GroupReward, Reward, Tool


def _has(*parts: str) -> Callable[[Any], bool]:
    return lambda value: all(hasattr(value, part) for part in parts)


_TOOL: PluginKind[Any] = PluginKind(
    what="tool",
    group="agentfly.tools",
    fits=lambda value: (
        isinstance(value, type)
        or is_plain_callable(value)
        or _has("spec", "environments", "run")(value)
    ),
    way_out="name a function, a method, or a class with documented methods",
    builtin={"answer": answer, "calculator": calculator, "finish": finish},
)
_REWARD: PluginKind[Any] = PluginKind(
    what="reward",
    group="agentfly.rewards",
    fits=_has("score", "environments"),
    way_out="decorate it with @reward, or name the reward that it makes",
    builtin={
        "exact_match": exact_match,
        "math_equivalence": math_equivalence,
        "numeric_match": numeric_match,
        "qa_exact_match": qa_exact_match,
        "qa_f1": qa_f1,
    },
)
_GROUP_REWARD: PluginKind[GroupReward] = PluginKind(
    what="group reward",
    group="agentfly.rewards",
    fits=_has("score_group"),
    way_out="decorate it with @group_reward",
)
_KIND: PluginKind[Any] = PluginKind(
    what="kind of agent",
    fits=_has("open", "read", "reply"),
    way_out="inherit from agentfly.ToolCalling, or write `open`, `read` and `reply`",
    builtin=KINDS,
)


def _is_mask(value: Any) -> bool:
    """Return whether a value may be called with turns: no class, tool, advantage or loss."""
    is_marked = hasattr(value, "function")  # by @tool, @advantage or @loss
    return callable(value) and not isinstance(value, type) and not is_marked


_MASK: PluginKind[MaskPolicy] = PluginKind(
    what="mask policy",
    fits=_is_mask,
    way_out="name a function over turns",
    builtin=MASK_POLICIES,
)


def find_tools(name: str, *, base: Path | None = None) -> tuple[Tool, ...]:
    """Return the tool of a name, or those of a class. Modules are searched in `base` first.

    >>> [tool.spec.name for tool in find_tools("calculator")]
    ['calculator']
    """
    tools = make_tools([_TOOL.find(name, base=base)])
    Toolbox(tools)
    return tools


def find_reward(name: str, *, base: Path | None = None) -> Reward:
    """Return the reward of a name; a built-in one with its defaults.

    >>> find_reward("exact_match").name
    'exact_match'
    """
    found = _REWARD.find(name, base=base)
    reward: Reward = found() if name in _REWARD.builtin else found
    return reward


def find_group_reward(name: str, *, base: Path | None = None) -> GroupReward:
    """Return the group reward of a name."""
    return _GROUP_REWARD.find(name, base=base)


def find_kind(name: str, *, base: Path | None = None) -> AgentKind:
    """Return the kind of agent of a name; call a class without arguments."""
    found = _KIND.find(name, base=base)
    with boundary(ConfigError, f"calling {name} without arguments"):
        kind: AgentKind = found() if isinstance(found, type) else found
    return kind


def find_mask(name: str, *, base: Path | None = None) -> MaskPolicy:
    """Return the mask policy of a name."""
    return _MASK.find(name, base=base)
