"""Specifications and results of tools."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentfly.types.message import Image
from agentfly.types.score import require_finite_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Specification of a tool that the model is shown."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of type `object`."""

    def to_openai(self) -> dict[str, Any]:
        """Return the form that OpenAI's API and Hugging Face's templates take."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


class ToolStatus(StrEnum):
    """Outcome of a call; every outcome is an observation for the model."""

    OK = "ok"
    MALFORMED = "malformed"
    """No call could be read from what the model wrote."""
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    ERROR = "error"
    """The tool raised."""
    TIMEOUT = "timeout"

    @property
    def invalid(self) -> bool:
        """Whether the call itself was wrong, and so the tool was not run."""
        return self in (ToolStatus.MALFORMED, ToolStatus.UNKNOWN_TOOL, ToolStatus.BAD_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Result of a tool call."""

    observation: str
    """Text that the model is shown."""
    status: ToolStatus = ToolStatus.OK
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for rewards and people, not shown to the model."""
    images: tuple[Image, ...] = ()
    reward: float | None = None
    """Reward of this step, for turn-level credit."""
    state_key: str | None = None
    """Key of the state after the call, where states can repeat: equal keys mean equal states."""
    ends_chain: bool = False
    repaired: bool = False
    """Whether the arguments' JSON was repaired before the call."""

    def __post_init__(self) -> None:
        require_finite_reward(self.reward, "a tool's result")
