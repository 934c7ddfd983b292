"""The tool calls of a turn: run concurrently, answered in order, bounded."""

from collections.abc import Awaitable, Callable, Sequence

from agentfly.rollout.chain_limits import Limits
from agentfly.runtime.ordered import in_order
from agentfly.types import StopReason, ToolCall, ToolResult, ToolStatus

_NOT_RUN = ToolResult(
    observation="This call was not run: the limit on tool calls is reached.",
    status=ToolStatus.ERROR,
)


class CallBudget:
    """Counts a chain's calls against its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._calls = 0
        self._invalid_in_a_row = 0

    async def run(
        self, calls: Sequence[ToolCall], run: Callable[[int, ToolCall], Awaitable[ToolResult]]
    ) -> tuple[ToolResult, ...]:
        """Run as many calls as the budget allows; the others are answered without being run."""
        allowed = int(min(len(calls), self._limits.max_tool_calls - self._calls))
        self._calls += len(calls)
        ran = await in_order([run(place, call) for place, call in enumerate(calls[:allowed])])
        return (*ran, *(_NOT_RUN for _ in calls[allowed:]))

    def stop_after(self, results: Sequence[ToolResult]) -> StopReason | None:
        """Say whether a turn's results end the chain."""
        for result in results:
            self._invalid_in_a_row = self._invalid_in_a_row + 1 if result.status.invalid else 0
            if self._invalid_in_a_row >= self._limits.max_invalid_calls:
                return StopReason.INVALID_CALLS
        if any(result.ends_chain for result in results):
            return StopReason.TOOL_ENDED
        if self._calls >= self._limits.max_tool_calls:
            return StopReason.TOOL_CALL_LIMIT
        return None
