"""The small parts of the chain loop."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.errors import EnvError
from agentfly.rollout.callbacks import TextStream
from agentfly.rollout.chain_limits import CallBudget, Limits
from agentfly.rollout.chain_time import Stopwatch
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.ordered import in_order
from agentfly.testing import run_in_virtual_time
from agentfly.types import SpanKind, StopReason, ToolCall, ToolResult, ToolStatus

TOKENIZER = ByteTokenizer(CHATML_TOKENS)


@given(st.text(max_size=30))
def test_streamed_text_is_the_text_and_never_half_a_character(text: str) -> None:
    stream = TextStream(TOKENIZER.decode)
    pieces = [stream.add(token) for token in TOKENIZER.encode(text)]
    assert "".join(pieces) == text
    assert "\ufffd" in text or not any("\ufffd" in piece for piece in pieces)


def test_bytes_that_make_no_character_are_shown_in_the_end() -> None:
    stream = TextStream(TOKENIZER.decode)
    shown = "".join(stream.add(token) for token in [0xFF, 0xFE, 0xFF, 0xFE, 0xFF, 0xFE, 65, 66])
    assert shown.endswith("AB")
    assert "\ufffd" in shown


def result(status: ToolStatus = ToolStatus.OK, *, ends: bool = False) -> ToolResult:
    return ToolResult(observation="", status=status, ends_chain=ends)


def test_invalid_calls_count_in_a_row_only() -> None:
    budget = CallBudget(Limits(max_invalid_calls=3))
    bad, good = result(ToolStatus.UNKNOWN_TOOL), result()
    assert budget.stop_after([bad, bad, good]) is None
    assert budget.stop_after([bad, bad]) is None
    assert budget.stop_after([bad]) is StopReason.INVALID_CALLS


def test_refused_actions_end_no_chain_and_a_row_of_invalid_calls() -> None:
    budget = CallBudget(Limits(max_invalid_calls=2))
    bad, refused = result(ToolStatus.MALFORMED), result(ToolStatus.REFUSED)
    assert refused.status.invalid
    assert budget.stop_after([refused] * 9) is None
    assert budget.stop_after([bad, refused, bad, refused]) is None
    assert budget.stop_after([bad, bad]) is StopReason.INVALID_CALLS


def test_a_tool_that_ends_the_chain_comes_before_the_limit_on_calls() -> None:
    budget = CallBudget(Limits(max_tool_calls=1))
    assert budget.stop_after([result(ends=True)]) is StopReason.TOOL_ENDED


async def test_calls_beyond_the_limit_are_answered_without_being_run() -> None:
    ran: list[int] = []

    async def run(place: int, call: ToolCall) -> ToolResult:
        ran.append(place)
        return result()

    calls = [ToolCall(id=str(i), name="f", arguments="{}") for i in range(3)]
    budget = CallBudget(Limits(max_tool_calls=2))
    results = await budget.run(calls, run)
    assert ran == [0, 1]
    assert len(results) == 3
    assert "was not run" in results[2].observation
    assert budget.stop_after(results) is StopReason.TOOL_CALL_LIMIT


async def test_one_failure_cancels_the_others_and_comes_out_as_itself() -> None:
    cancelled: list[bool] = []

    async def slow() -> str:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "never"

    async def fail() -> str:
        await asyncio.sleep(0)
        raise EnvError("boom")

    with pytest.raises(EnvError, match="boom"):
        await in_order([slow(), fail(), slow()])
    assert cancelled == [True, True]


def test_spans_are_measured_from_when_the_chain_was_asked_for() -> None:
    async def main() -> Stopwatch:
        clock = LoopClock()
        watch = Stopwatch(clock, asked_at=clock.now())
        await clock.sleep(2)
        with watch.span(SpanKind.TOOL, "search", 3):
            await clock.sleep(5)
        with pytest.raises(TimeoutError):
            await stuck(watch, clock)
        return watch

    async def stuck(watch: Stopwatch, clock: LoopClock) -> None:
        async with clock.timeout_at(clock.now() + 1):
            with watch.span(SpanKind.GENERATE, "model", 4):
                await clock.sleep(100)

    watch = run_in_virtual_time(main())
    assert [span.name for span in watch.spans] == ["search", "model"]
    assert [span.start for span in watch.spans] == pytest.approx([2.0, 7.0])
    assert [span.end for span in watch.spans] == pytest.approx([7.0, 8.0])
    assert watch.describe_interrupted() == "generate 'model' in turn 4 (1.0 s)"
