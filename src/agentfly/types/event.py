"""Events of a chain as they happen, for consoles, pages and callbacks."""

from collections.abc import Callable
from dataclasses import dataclass

from agentfly.types.message import Message, ToolCall
from agentfly.types.score import Score
from agentfly.types.stop_reason import StopReason
from agentfly.types.tool import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _ChainEvent:
    chain_id: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStarted(_ChainEvent):
    """Admission of a chain; `messages` open it."""

    messages: tuple[Message, ...]
    attempt: int = 0
    """Number of earlier attempts, which failed for reasons of infrastructure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampled(_ChainEvent):
    """One sampled token."""

    token_id: int
    logprob: float
    text: str
    """Text that it adds; empty in the middle of a character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRead(_ChainEvent):
    """End of a generation, read into a message."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(_ChainEvent):
    """Tool call that is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(_ChainEvent):
    """Result of a tool call."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvObserved(_ChainEvent):
    """Observation of an environment."""

    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded(_ChainEvent):
    """Score of a chain."""

    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(_ChainEvent):
    """End of a chain, whose record is final: no retry or group reward will change it."""

    stop: StopReason
    error: str | None


Event = (
    ChainStarted
    | TokenSampled
    | TurnRead
    | ToolCalled
    | Observed
    | EnvObserved
    | Rewarded
    | Stopped
)
OnEvent = Callable[[Event], None]
