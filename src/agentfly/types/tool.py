"""Specifications and results of tools."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from agentfly.types.message import Image
from agentfly.types.score import read_flag, require_finite_reward


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Heavy:
    """Resources that a call of a heavy tool or reward takes on a node of a cluster."""

    cpus: float = 1.0
    gpus: float = 0.0
    memory_mb: float = 0.0

    @classmethod
    def read(cls, given: "bool | Heavy") -> "Heavy | None":
        """Read the option `heavy` of a decorator; None where a call runs in this process.

        >>> Heavy.read(True), Heavy.read(False)
        (Heavy(cpus=1.0, gpus=0.0, memory_mb=0.0), None)
        """
        return given if isinstance(given, Heavy) else cls() if given else None


Offload = Callable[[Callable[..., Any], Heavy, str], Callable[..., Awaitable[Any]]]
"""Returns an async function that runs another, with a name for messages, on a cluster."""


class ToolStatus(StrEnum):
    """Outcome of a call; every outcome is an observation for the model."""

    OK = "ok"
    MALFORMED = "malformed"
    """No call could be read from what the model wrote."""
    UNKNOWN_TOOL = "unknown_tool"
    BAD_ARGUMENTS = "bad_arguments"
    REFUSED = "refused"
    """The call was right, and the environment refused its action (`Step.invalid`)."""
    ERROR = "error"
    """The tool raised."""
    TIMEOUT = "timeout"

    @property
    def invalid(self) -> bool:
        """Whether it was unreadable, of no tool, with impossible arguments, or refused."""
        return self in (
            ToolStatus.MALFORMED,
            ToolStatus.UNKNOWN_TOOL,
            ToolStatus.BAD_ARGUMENTS,
            ToolStatus.REFUSED,
        )


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
        ends_chain = read_flag(self.ends_chain, "'ends_chain' of a tool's result")
        object.__setattr__(self, "ends_chain", ends_chain)
