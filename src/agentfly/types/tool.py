"""What passes between the model's call and the tool's answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentfly.types.message import Image
from agentfly.types.score import require_finite_reward


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told of a tool."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """A JSON Schema of type `object`."""

    def to_openai(self) -> dict[str, Any]:
        """Return the form that OpenAI's API and Hugging Face's templates take."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }
        return {"type": "function", "function": function}


class ToolStatus(StrEnum):
    """How a call went. Every one of them is an observation for the model."""

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
        """Whether the model called wrongly, as against a call that went wrong."""
        return self in (ToolStatus.MALFORMED, ToolStatus.UNKNOWN_TOOL, ToolStatus.BAD_ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a tool answers."""

    observation: str
    """What the model reads."""
    status: ToolStatus = ToolStatus.OK
    info: Mapping[str, Any] = field(default_factory=dict)
    """JSON values for rewards and people; the model doesn't see them."""
    images: tuple[Image, ...] = ()
    reward: float | None = None
    """Reward of this step, for turn-level credit."""
    state_key: str | None = None
    """Of the state after the call, where states can repeat: equal keys mean equal states."""
    ends_chain: bool = False
    repaired: bool = False
    """Whether a slip in the arguments' JSON was mended before the call."""

    def __post_init__(self) -> None:
        require_finite_reward(self.reward, "a tool's result")
