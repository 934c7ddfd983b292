"""Sampling through vLLM's token-in, token-out route, against a stand-in that checks the schema."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.http_standin import Handler, Received, Reply, StandIn, standing_in
from tests.engines.vllm_standin import FakeVllm, logprob_of, text_of, token_at
from tests.patience import PATIENCE, HandMovedClock

from agentfly.engines.vllm import VllmEngine
from agentfly.engines.vllm.generate import LabelSpan, version_runs
from agentfly.errors import ConfigError, DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.testing import check_engine
from agentfly.types import Completion, Engine, FinishReason, OnToken, Request, SamplingParams, Seed

PROMPT = [3, 1, 4]
SEED = Seed(2**64 - 1)
FIRST = [token_at(PROMPT, SEED.value >> 1, i) for i in range(20)]
"""What the stand-in samples for this prompt and seed."""


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[tuple[VllmEngine, StandIn]]:
    async with standing_in(handler) as server:
        endpoint = Endpoint(url=server.url, retry=Retry(attempts=3, first_wait=0.01))
        engine = VllmEngine(endpoint, **options)
        try:
            yield engine, server
        finally:
            await engine.close()
            assert await server.all_hung_up(), "a connection is left open"


async def sample(
    engine: Engine,
    params: SamplingParams | None = None,
    on_token: OnToken | None = None,
    seconds: float = PATIENCE,
    priority: int = 0,
    chain: str = "t/0/0",
) -> Completion:
    request = Request(chain_id=chain, group_id="t/0", turn=0, seed=SEED, priority=priority)
    return await engine.sample(
        PROMPT,
        params or SamplingParams(max_tokens=4),
        request=request,
        deadline=LoopClock().now() + seconds,
        on_token=on_token,
    )


async def test_it_keeps_the_contract_of_an_engine() -> None:
    async with serving(FakeVllm()) as (engine, _):
        await check_engine(engine, PROMPT)


async def test_what_was_sampled_is_what_is_recorded() -> None:
    async with serving(FakeVllm(), version=5) as (engine, _):
        completion = await sample(engine)
    assert completion == Completion(
        token_ids=tuple(FIRST[:4]),
        logprobs=tuple(logprob_of(t, i) for i, t in enumerate(FIRST[:4])),
        versions=((5, 4),),
        finish_reason=FinishReason.LENGTH,
    )


async def test_a_stream_gives_the_same_token_by_token() -> None:
    heard: list[tuple[int, float]] = []
    async with serving(FakeVllm()) as (engine, server):
        whole = await sample(engine)
        streamed = await sample(engine, on_token=lambda t, p: heard.append((t, p)))
        assert [r.body["stream"] for r in server.received] == [False, True]
    assert streamed == whole
    assert heard == list(zip(whole.token_ids, whole.logprobs, strict=True))


async def test_everything_that_shapes_the_sample_is_sent() -> None:
    params = SamplingParams(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, max_tokens=3, stop=("<x>",),
        stop_token_ids=(2, 9),
    )  # fmt: skip
    async with serving(FakeVllm(), logprobs="scaled") as (engine, server):
        await sample(engine, params, priority=-2)
        [sent] = server.received
    assert (sent.path, sent.headers["x-session-id"]) == ("/inference/v1/generate", "t/0/0")
    assert sent.body == {
        "token_ids": PROMPT,
        "stream": False,
        "priority": -2,
        "sampling_params": {
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 7,
            "min_p": 0.1,
            "max_tokens": 3,
            "seed": 2**63 - 1,
            "stop": ["<x>"],
            "stop_token_ids": [2, 9],
            "ignore_eos": True,
            "skip_special_tokens": False,
            "detokenize": True,
            "logprobs": 0,
        },
    }


async def test_text_is_made_only_where_stop_strings_need_it() -> None:
    async with serving(FakeVllm()) as (engine, server):
        await sample(engine)
        assert server.received[0].body["sampling_params"]["detokenize"] is False


async def test_ends_by_token_and_by_string() -> None:
    by_token = SamplingParams(max_tokens=9, stop_token_ids=(FIRST[2],))
    by_string = SamplingParams(max_tokens=9, stop=(text_of(FIRST[1:2])[1:],))
    async with serving(FakeVllm()) as (engine, _):
        stopped = await sample(engine, by_token)
        cut = await sample(engine, by_string)
    assert (stopped.token_ids, stopped.finish_reason) == (tuple(FIRST[:3]), FinishReason.STOP)
    assert (cut.token_ids, cut.finish_reason) == (tuple(FIRST[:2]), FinishReason.STOP_STRING)


@pytest.mark.parametrize("temperature", [0.001, 0.00999])
async def test_temperatures_that_vllm_would_silently_raise_are_refused(temperature: float) -> None:
    async with serving(FakeVllm(), logprobs="processed") as (engine, _):
        with pytest.raises(ConfigError, match=r"temperature 0 or from 0\.01 on"):
            await sample(engine, SamplingParams(temperature=temperature))


async def test_parameters_that_would_make_logprobs_wrong_are_refused() -> None:
    async with serving(FakeVllm(), logprobs="processed") as (engine, _):
        await sample(engine, SamplingParams(temperature=0.7, max_tokens=1))
        with pytest.raises(ConfigError, match=r"top_p=0\.9"):
            await sample(engine, SamplingParams(top_p=0.9))


async def test_what_the_schema_forbids_is_a_typed_error() -> None:
    async with serving(FakeVllm(), logprobs="processed") as (engine, server):
        with pytest.raises(EngineError, match=r"answered 400: .*temperature"):
            await sample(engine, SamplingParams(temperature=2.5))
        assert len(server.received) == 1


def test_the_address_is_the_servers_root() -> None:
    with pytest.raises(ConfigError, match="without /v1"):
        VllmEngine("http://localhost:8000/v1/")


GOOD = {
    "token_ids": [7, 8],
    "logprobs": {"content": [{"token_id": 7, "logprob": -0.5}, {"token_id": 8, "logprob": -1.5}]},
    "finish_reason": "length",
    "weight_versions": [{"version": "default", "start": 0, "end": 2}],
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"token_ids": None}, "0 token ids and 2 log-probabilities"),
        ({"logprobs": None}, "2 token ids and 0 log-probabilities"),
        ({"token_ids": [7, 9]}, "log-probabilities of other tokens than it sampled"),
        ({"finish_reason": "abort"}, "with the reason 'abort'"),
        ({"finish_reason": "error"}, "with the reason 'error'"),
        ({"weight_versions": [{"version": "0", "start": 0, "end": 1}]}, "spans that cover all"),
        ({"weight_versions": [{"version": "x", "start": 0, "end": 2}]}, "labeled 'x'"),
        ({"weight_versions": "3"}, r"should have answered a generation"),
    ],
)
async def test_an_answer_that_does_not_fit_together_is_refused(
    change: dict[str, Any], complaint: str
) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"choices": [GOOD | change]})

    async with serving(handler) as (engine, _):
        with pytest.raises(EngineError, match=complaint):
            await sample(engine)


async def test_no_choice_at_all_is_refused() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"choices": []})

    async with serving(handler) as (engine, _):
        with pytest.raises(EngineError, match="no choice"):
            await sample(engine)


async def test_a_slow_server_ends_at_the_deadline_and_hears_of_it() -> None:
    clock = HandMovedClock()
    loop = asyncio.get_running_loop()
    async with serving(FakeVllm(seconds_per_token=60), clock=clock) as (engine, server):
        for count, on_token in enumerate((None, lambda t, p: None), 1):
            waiter = loop.create_task(sample(engine, on_token=on_token))
            await server.until_received(count)
            clock.pass_deadlines()
            with pytest.raises(DeadlineError):
                await waiter
            assert await server.all_hung_up(), "the server goes on for nobody"


async def test_cancelled_waiters_leave_nothing() -> None:
    async with serving(FakeVllm(seconds_per_token=60)) as (engine, server):
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(sample(engine)) for _ in range(20)]
        await server.until_received(20)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)


def span(version: str, start: int, end: int) -> LabelSpan:
    return LabelSpan(version=version, start=start, end=end)


def test_unlabeled_weights_are_known_only_before_the_first_update() -> None:
    spans = [span("default", 0, 2), span("4", 2, 5)]
    assert version_runs(spans, 5, unlabeled=3) == ((3, 2), (4, 3))
    with pytest.raises(EngineError, match="Was the server restarted"):
        version_runs(spans, 5, unlabeled=None)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 50)), max_size=8))
def test_spans_become_runs(pairs: list[tuple[int, int]]) -> None:
    spans, at = list[LabelSpan](), 0
    for version, count in pairs:
        spans.append(span(str(version), at, at + count))
        at += count
    assert version_runs(spans, at, unlabeled=None) == tuple(pairs)


@pytest.mark.parametrize(
    "spans",
    [
        [],
        [span("1", 0, 4)],
        [span("1", 1, 5)],
        [span("1", 0, 2), span("2", 3, 5)],
        [span("1", 0, 3), span("2", 2, 5)],
        [span("1", 0, 0), span("2", 0, 5)],
        [span("1", 0, 6)],
    ],
)
def test_spans_that_do_not_cover_all_tokens_once_are_refused(spans: list[LabelSpan]) -> None:
    with pytest.raises(EngineError, match="spans that cover all"):
        version_runs(spans, 5, unlabeled=None)
