"""What happens in a chain, as it happens, for consoles, pages and callbacks."""

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
    """A chain was admitted; `messages` open it."""

    messages: tuple[Message, ...]
    attempt: int = 0
    """How often it was tried before, after failures of infrastructure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampled(_ChainEvent):
    """One more token."""

    token_id: int
    logprob: float
    text: str
    """What it adds to the text; empty in the middle of a character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRead(_ChainEvent):
    """A generation ended and was read into a message."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(_ChainEvent):
    """A tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(_ChainEvent):
    """A tool answered."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvObserved(_ChainEvent):
    """An environment spoke."""

    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded(_ChainEvent):
    """A chain was scored."""

    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(_ChainEvent):
    """A chain ended, and its record is final: no retry or group reward will change it."""

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
