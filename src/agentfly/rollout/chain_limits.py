"""Limits of a chain, and the budget of its tool calls."""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, fields

from agentfly.errors import ConfigError
from agentfly.runtime.ordered import in_order
from agentfly.types import StopReason, ToolCall, ToolResult, ToolStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits after which a chain is stopped, each with its own stop reason.

    The calls of the last allowed turn are still run.
    """

    max_turns: int = 8
    max_tokens: float = math.inf
    """Sampled tokens over all turns; one turn is bounded by `SamplingParams.max_tokens`."""
    max_tool_calls: float = math.inf
    max_invalid_calls: float = 5
    """Malformed, unknown or wrongly filled calls in a row; actions that an environment refused are
    not among them."""
    context_length: float = math.inf
    """Tokens that the model can see at once, those it is about to sample included."""
    seconds: float = 600.0
    """Time from admission to the last turn, without waiting for an environment or in the queue of
    an engine that reports when it starts."""
    reward_seconds: float = 300.0
    """For the reward, after the last turn; a reward made by `@reward` also has its own timeout."""
    lease_seconds: float = 600.0
    """Maximum wait for an environment in which no chain is lent one, from the first call on that
    needs it."""
    queue_seconds: float = 600.0
    """Maximum wait of a turn in an engine's queue; after it the engine counts as failed."""

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not value > 0:
                raise ConfigError(f"{limit.name} must be greater than 0, got {value!r}")


_NOT_RUN = ToolResult(
    observation="This call was not run: the limit on tool calls is reached.",
    status=ToolStatus.ERROR,
)


class CallBudget:
    """Count of a chain's tool calls against its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls = 0
        self._invalid_in_a_row = 0

    async def run(
        self, calls: Sequence[ToolCall], run: Callable[[int, ToolCall], Awaitable[ToolResult]]
    ) -> tuple[ToolResult, ...]:
        """Start the calls of a turn together, as many as the budget allows, and answer in order.

        Calls beyond the budget are answered without being run.
        """
        allowed = int(min(len(calls), self._limits.max_tool_calls - self._calls))
        self._calls += len(calls)
        ran = await in_order([run(place, call) for place, call in enumerate(calls[:allowed])])
        return ran + (_NOT_RUN,) * (len(calls) - allowed)

    def stop_after(self, results: Sequence[ToolResult]) -> StopReason | None:
        """Return why a turn's results end the chain; None if they do not."""
        for result in results:
            # A refused action was a call that works; the number of turns bounds those.
            counts = result.status.invalid and result.status is not ToolStatus.REFUSED
            self._invalid_in_a_row = self._invalid_in_a_row + 1 if counts else 0
            if self._invalid_in_a_row >= self._limits.max_invalid_calls:
                return StopReason.INVALID_CALLS
        if any(result.ends_chain for result in results):
            return StopReason.TOOL_ENDED
        if self._calls >= self._limits.max_tool_calls:
            return StopReason.TOOL_CALL_LIMIT
        return None
