"""AgentFly trains language-model agents with reinforcement learning.

Names are imported on first use, so that a child process that needs one package doesn't load all of
them.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentfly.agents import Agent as Agent
    from agentfly.agents import CodeBlocks as CodeBlocks
    from agentfly.agents import ReAct as ReAct
    from agentfly.agents import RunResult as RunResult
    from agentfly.agents import Source as Source
    from agentfly.agents import Tags as Tags
    from agentfly.agents import ToolCalling as ToolCalling
    from agentfly.config import AlgorithmSettings as AlgorithmSettings
    from agentfly.config import EngineSettings as EngineSettings
    from agentfly.config import EvalSettings as EvalSettings
    from agentfly.config import ModelSettings as ModelSettings
    from agentfly.config import RolloutSettings as RolloutSettings
    from agentfly.config import RunSettings as RunSettings
    from agentfly.config import TrainSettings as TrainSettings
    from agentfly.config import load_settings as load_settings
    from agentfly.engines import OpenAIChat as OpenAIChat
    from agentfly.engines import ScriptedEngine as ScriptedEngine
    from agentfly.engines import VllmEngine as VllmEngine
    from agentfly.engines.local import LocalEngine as LocalEngine
    from agentfly.environments import load_environment as load_environment
    from agentfly.errors import AgentFlyError as AgentFlyError
    from agentfly.errors import ConfigError as ConfigError
    from agentfly.errors import ToolError as ToolError
    from agentfly.rewards import group_reward as group_reward
    from agentfly.rewards import reward as reward
    from agentfly.rollout import Limits as Limits
    from agentfly.tools import tool as tool
    from agentfly.training import Trainer as Trainer
    from agentfly.training import TrainResult as TrainResult
    from agentfly.types import Completion as Completion
    from agentfly.types import Context as Context
    from agentfly.types import EnvSpec as EnvSpec
    from agentfly.types import Event as Event
    from agentfly.types import Group as Group
    from agentfly.types import Image as Image
    from agentfly.types import Message as Message
    from agentfly.types import SamplingParams as SamplingParams
    from agentfly.types import Score as Score
    from agentfly.types import Step as Step
    from agentfly.types import StopReason as StopReason
    from agentfly.types import Task as Task
    from agentfly.types import ToolCall as ToolCall
    from agentfly.types import ToolResult as ToolResult
    from agentfly.types import ToolSpec as ToolSpec
    from agentfly.types import ToolStatus as ToolStatus
    from agentfly.types import Trajectory as Trajectory
    from agentfly.types import Turn as Turn

if sys.platform == "win32":
    raise ImportError(
        "AgentFly does not run on Windows: it needs processes, signals and file locks as Linux has "
        "them. Install it inside WSL 2, which `wsl --install` sets up"
    )

_NAMES_BY_PACKAGE = {
    "agents": ("Agent", "CodeBlocks", "ReAct", "RunResult", "Source", "Tags", "ToolCalling"),
    "config": (
        "AlgorithmSettings",
        "EngineSettings",
        "EvalSettings",
        "ModelSettings",
        "RolloutSettings",
        "RunSettings",
        "TrainSettings",
        "load_settings",
    ),
    "engines": ("OpenAIChat", "ScriptedEngine", "VllmEngine"),
    "engines.local": ("LocalEngine",),
    "environments": ("load_environment",),
    "errors": ("AgentFlyError", "ConfigError", "ToolError"),
    "rewards": ("group_reward", "reward"),
    "rollout": ("Limits",),
    "tools": ("tool",),
    "training": ("TrainResult", "Trainer"),
    "types": (
        "Completion",
        "Context",
        "EnvSpec",
        "Event",
        "Group",
        "Image",
        "Message",
        "SamplingParams",
        "Score",
        "Step",
        "StopReason",
        "Task",
        "ToolCall",
        "ToolResult",
        "ToolSpec",
        "ToolStatus",
        "Trajectory",
        "Turn",
    ),
}
_PACKAGE_OF = {
    name: f"agentfly.{package}" for package, names in _NAMES_BY_PACKAGE.items() for name in names
}

_NEED_TORCH = ("agentfly.engines.local", "agentfly.training")
# `import *` must not need torch.
__all__ = sorted(name for name, package in _PACKAGE_OF.items() if package not in _NEED_TORCH)


def __getattr__(name: str) -> Any:
    if name not in _PACKAGE_OF:
        raise AttributeError(f"module 'agentfly' has no attribute {name!r}")
    return getattr(import_module(_PACKAGE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(_PACKAGE_OF)
