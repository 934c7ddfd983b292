"""Reasons why chains end, and the one table of what follows from each."""

from dataclasses import dataclass
from enum import StrEnum


class StopReason(StrEnum):
    """Reason why a chain ended: exactly one per chain."""

    ANSWERED = "answered"
    """The model answered without calling a tool."""
    TOOL_ENDED = "tool_ended"
    ENV_ENDED = "env_ended"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    TOOL_CALL_LIMIT = "tool_call_limit"
    CONTEXT_LIMIT = "context_limit"
    INVALID_CALLS = "invalid_calls"
    """More invalid tool calls in a row than the cap allows."""
    TIME_LIMIT = "time_limit"
    ENV_CRASHED = "env_crashed"
    ENGINE_FAILED = "engine_failed"
    LEASE_TIMEOUT = "lease_timeout"
    REWARD_FAILED = "reward_failed"
    AGENT_FAILED = "agent_failed"
    """The agent's own code raised: a mistake of its author, which no retry fixes."""
    STALLED = "stalled"
    """Nothing happened in it for so long that the watchdog ended it."""
    CANCELLED = "cancelled"
    SURPLUS = "surplus"
    """Not needed any more: its group was complete without it."""

    @property
    def verdict(self) -> "Verdict":
        """Consequences of this reason."""
        return _TABLE[self]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Consequences of a stop reason."""

    scored: bool
    trained: bool
    failure: bool
    infrastructure: bool
    """Counted against the share of failures that ends a run, and retried."""


_FINISHED = Verdict(scored=True, trained=True, failure=False, infrastructure=False)
_TOO_SLOW = Verdict(scored=False, trained=False, failure=True, infrastructure=False)
_BROKEN = Verdict(scored=False, trained=False, failure=True, infrastructure=True)
_MISTAKE = Verdict(scored=False, trained=False, failure=True, infrastructure=False)
_DROPPED = Verdict(scored=False, trained=False, failure=False, infrastructure=False)

_TABLE = {
    StopReason.ANSWERED: _FINISHED,
    StopReason.TOOL_ENDED: _FINISHED,
    StopReason.ENV_ENDED: _FINISHED,
    StopReason.TURN_LIMIT: _FINISHED,
    StopReason.TOKEN_LIMIT: _FINISHED,
    StopReason.TOOL_CALL_LIMIT: _FINISHED,
    StopReason.CONTEXT_LIMIT: _FINISHED,
    StopReason.INVALID_CALLS: _FINISHED,
    StopReason.TIME_LIMIT: _TOO_SLOW,
    StopReason.ENV_CRASHED: _BROKEN,
    StopReason.ENGINE_FAILED: _BROKEN,
    StopReason.LEASE_TIMEOUT: _BROKEN,
    StopReason.REWARD_FAILED: _BROKEN,
    StopReason.AGENT_FAILED: _MISTAKE,
    StopReason.STALLED: _BROKEN,
    StopReason.CANCELLED: _DROPPED,
    StopReason.SURPLUS: _DROPPED,
}
