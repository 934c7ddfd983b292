"""What happens in a chain, as it happens, for consoles, pages and callbacks."""

from collections.abc import Callable
from dataclasses import dataclass

from agentfly.types.message import Message, ToolCall
from agentfly.types.score import Score
from agentfly.types.stop import StopReason
from agentfly.types.tool import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfChain:
    chain_id: str
    turn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStarted(_OfChain):
    """A chain was admitted; `messages` open it."""

    messages: tuple[Message, ...]
    attempt: int = 0
    """How often it was tried before, after failures of infrastructure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSampled(_OfChain):
    """One more token."""

    token_id: int
    logprob: float
    text: str
    """What it adds to the text; empty in the middle of a character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRead(_OfChain):
    """A generation ended and was read into a message."""

    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled(_OfChain):
    """A tool is about to run."""

    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed(_OfChain):
    """A tool answered."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvObserved(_OfChain):
    """An environment spoke."""

    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewarded(_OfChain):
    """A chain was scored."""

    score: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped(_OfChain):
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
