"""The ids path against a stand-in that checks every request against vLLM's schema."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.engines.http_standin import Handler, Received, Reply, StandIn, standing_in
from tests.engines.vllm_standin import FakeVllm, logprob_of, text_of, token_at
from tests.patience import PATIENCE

from agentfly.engines.http_engine import Logprobs
from agentfly.engines.openai import OpenAICompletions
from agentfly.errors import ConfigError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.testing import check_engine
from agentfly.types import Completion, FinishReason, OnToken, Request, SamplingParams, Seed

PROMPT = [3, 1, 4]
SEED = Seed(11)
WIRE_SEED = SEED.value >> 1
FIRST = [token_at(PROMPT, WIRE_SEED, i) for i in range(20)]
"""What the stand-in samples for this prompt and seed."""


@asynccontextmanager
async def serving(
    handler: Handler, **options: Any
) -> AsyncIterator[tuple[OpenAICompletions, StandIn]]:
    async with standing_in(handler) as server:
        endpoint = Endpoint(url=f"{server.url}/v1", retry=Retry(attempts=3, first_wait=0.01))
        engine = OpenAICompletions(endpoint, model="m", **options)
        try:
            yield engine, server
        finally:
            await engine.close()
            assert await server.all_hung_up(), "a connection is left open"


async def sample(
    engine: OpenAICompletions,
    params: SamplingParams | None = None,
    on_token: OnToken | None = None,
    seconds: float = PATIENCE,
) -> Completion:
    request = Request(chain_id="t/0/0", group_id="t/0", turn=0, seed=SEED)
    return await engine.sample(
        PROMPT,
        params or SamplingParams(max_tokens=4),
        request=request,
        deadline=LoopClock().now() + seconds,
        on_token=on_token,
    )


def answering(choice: dict[str, Any]) -> Handler:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"choices": [choice]})

    return handler


GOOD = {
    "token_ids": [7, 8],
    "prompt_token_ids": PROMPT,
    "logprobs": {"token_logprobs": [-0.5, -1.5]},
    "finish_reason": "length",
}


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
        await sample(engine, params)
        assert server.received[0].body == {
            "model": "m",
            "prompt": PROMPT,
            "stream": False,
            "return_token_ids": True,
            "logprobs": 1,
            "max_tokens": 3,
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": 7,
            "min_p": 0.1,
            "stop": ["<x>"],
            "stop_token_ids": [2, 9],
            "ignore_eos": True,
            "skip_special_tokens": False,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": WIRE_SEED,
        }


async def test_an_end_token_is_the_last_of_the_ids() -> None:
    params = SamplingParams(max_tokens=9, stop_token_ids=(FIRST[2],))
    async with serving(FakeVllm()) as (engine, _):
        completion = await sample(engine, params)
    assert completion.token_ids == tuple(FIRST[:3])
    assert completion.finish_reason is FinishReason.STOP


async def test_a_stop_string_leaves_the_ids_as_sampled() -> None:
    params = SamplingParams(max_tokens=9, stop=(text_of(FIRST[1:2])[1:],))
    async with serving(FakeVllm()) as (engine, _):
        completion = await sample(engine, params)
    assert completion.token_ids == tuple(FIRST[:2])
    assert completion.finish_reason is FinishReason.STOP_STRING


@pytest.mark.parametrize(
    ("stop_reason", "stop_ids", "stop", "expected"),
    [
        (None, (8,), (), FinishReason.STOP),
        (None, (), (), FinishReason.STOP),
        (None, (9,), ("x",), FinishReason.STOP_STRING),
        (8, (8,), ("x",), FinishReason.STOP),
        ("x", (8,), ("x",), FinishReason.STOP_STRING),
    ],
)
async def test_why_it_ended_is_found_from_what_the_server_reports(
    stop_reason: object, stop_ids: tuple[int, ...], stop: tuple[str, ...], expected: FinishReason
) -> None:
    params = SamplingParams(max_tokens=9, stop_token_ids=stop_ids, stop=stop)
    for name in ("stop_reason", "matched_stop"):
        choice = GOOD | {"finish_reason": "stop", name: stop_reason}
        async with serving(answering(choice)) as (engine, _):
            assert (await sample(engine, params)).finish_reason is expected


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"token_ids": None}, "no token ids, so its completions can't be trained on"),
        ({"logprobs": None}, "no logprobs, so its completions can't be trained on"),
        ({"logprobs": {"token_logprobs": [-0.5]}}, "2 token ids and 1 log-probabilities"),
        ({"logprobs": {"token_logprobs": [-0.5, None]}}, "returned None as the log-probability"),
        ({"logprobs": {"token_logprobs": [-0.5, -9999.0]}}, "returned -9999.0 as"),
        ({"logprobs": {"token_logprobs": [-0.5, 3.2]}}, "returned 3.2 as"),
        ({"logprobs": {"token_logprobs": [-0.5, float("nan")]}}, "finite number"),
        ({"prompt_token_ids": [1, *PROMPT]}, "changed the prompt: 3 tokens were sent"),
        ({"finish_reason": "abort"}, "after 2 tokens with the reason 'abort'"),
        ({"finish_reason": None}, "with the reason None"),
        ({"token_ids": [], "logprobs": {"token_logprobs": []}}, "returned 0 tokens"),
        ({"finish_reason": "stop", "stop_reason": 2}, "says that token 2 ended the completion"),
        ({"token_ids": ["a", "b"]}, r"choices\[0\].token_ids"),
    ],
)
async def test_a_server_that_gives_no_exact_record_is_refused(
    change: dict[str, Any], complaint: str
) -> None:
    async with serving(answering(GOOD | change)) as (engine, server):
        with pytest.raises(EngineError, match=complaint):
            await sample(engine)
        assert len(server.received) == 1


async def test_more_tokens_than_asked_for_are_refused() -> None:
    async with serving(answering(GOOD)) as (engine, _):
        with pytest.raises(EngineError, match="returned 2 tokens; expected 1 to 1"):
            await sample(engine, SamplingParams(max_tokens=1))


PLAIN = SamplingParams()
WARM = SamplingParams(temperature=0.7)
NUCLEUS = SamplingParams(top_p=0.9)
BOTH = SamplingParams(temperature=0.7, min_p=0.1)
GREEDY = SamplingParams(temperature=0.0, top_k=5)


@pytest.mark.parametrize(
    ("logprobs", "right", "wrong"),
    [
        ("scaled", [PLAIN, WARM, NUCLEUS, BOTH, GREEDY], []),
        ("processed", [PLAIN, WARM, GREEDY], [NUCLEUS, BOTH]),
        ("raw", [PLAIN, NUCLEUS, GREEDY], [WARM, BOTH]),
        (None, [PLAIN, GREEDY], [WARM, NUCLEUS, BOTH]),
    ],
)
async def test_parameters_that_would_make_logprobs_wrong_are_refused(
    logprobs: Logprobs | None, right: list[SamplingParams], wrong: list[SamplingParams]
) -> None:
    async with serving(FakeVllm(), logprobs=logprobs) as (engine, server):
        for params in right:
            await sample(engine, replace(params, max_tokens=1))
        for params in wrong:
            with pytest.raises(ConfigError, match="can't give right ones"):
                await sample(engine, params)
        assert len(server.received) == len(right)


async def test_tokens_are_recorded_under_the_version_that_is_set() -> None:
    async with serving(FakeVllm()) as (engine, _):
        engine.set_version(3)
        assert (await sample(engine)).versions == ((3, 4),)


async def test_weights_that_change_under_a_completion_spoil_it() -> None:
    async with serving(FakeVllm(seconds_per_token=0.05)) as (engine, server):
        task = asyncio.get_running_loop().create_task(sample(engine))
        await server.until_received(1)
        engine.set_version(1)
        with pytest.raises(EngineError, match="changed from version 0 to 1 under this completion"):
            await task


def event(ids: list[int], finish: str | None = None) -> str:
    choice = {
        "token_ids": ids,
        "logprobs": {"token_logprobs": [-0.5] * len(ids)},
        "finish_reason": finish,
    }
    return json.dumps({"choices": [choice]})


def streaming(*events: str, after: int = 0) -> Handler:
    """Send these events; at the connection's end, cut it hard. The first `after` send nothing."""
    seen = 0

    async def handler(received: Received, reply: Reply) -> None:
        nonlocal seen
        seen += 1
        reply.start_events()
        for data in events if seen > after else ():
            await reply.event(data)
        if events[-1] != "[DONE]" or seen <= after:
            await asyncio.sleep(0.05)
            reply.reset()

    return handler


async def test_a_stream_that_breaks_before_its_first_token_is_asked_for_again() -> None:
    heard: list[int] = []
    whole = (event([7]), event([8], "length"), "[DONE]")
    async with serving(streaming(*whole, after=2)) as (engine, server):
        completion = await sample(engine, on_token=lambda t, _: heard.append(t))
        assert len(server.received) == 3
    assert completion.token_ids == (7, 8) == tuple(heard)


async def test_a_stream_that_breaks_later_is_not() -> None:
    heard: list[int] = []
    async with serving(streaming(event([7]), event([8]))) as (engine, server):
        with pytest.raises(EngineError, match="the stream broke after 2 tokens"):
            await sample(engine, on_token=lambda t, _: heard.append(t))
        assert len(server.received) == 1
    assert heard == [7, 8]


async def test_a_stream_that_stops_talking_after_a_token_is_not_started_again() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        reply.start_events()
        await reply.event(event([7]))
        await reply.until_hung_up()

    async with standing_in(handler) as server:
        retry = Retry(attempts=3, first_wait=0.01)
        endpoint = Endpoint(url=server.url, retry=retry, request_seconds=0.3)
        engine = OpenAICompletions(endpoint, model="m")
        heard: list[int] = []
        with pytest.raises(EngineError, match="the stream broke after 1 tokens"):
            await sample(engine, on_token=lambda t, _: heard.append(t))
        await engine.close()
    assert heard == [7]


async def test_an_error_in_a_stream_is_reported() -> None:
    broken = json.dumps({"error": {"message": "engine died"}})
    async with serving(streaming(broken, "[DONE]")) as (engine, _):
        with pytest.raises(EngineError, match="engine died"):
            await sample(engine, on_token=lambda t, p: None)


async def test_events_may_come_in_any_pieces() -> None:
    text = "".join(f": ping\n\ndata: {e}\r\n\r\n" for e in (event([7]), event([8], "length")))
    raw = (text + "data:[DONE]\n\n").encode()

    async def handler(received: Received, reply: Reply) -> None:
        reply.start_events()
        for start in range(0, len(raw), 7):
            await reply.send(raw[start : start + 7])
            await asyncio.sleep(0)

    async with serving(handler) as (engine, _):
        completion = await sample(engine, on_token=lambda t, p: None)
    assert completion.token_ids == (7, 8)


async def test_a_stream_that_stays_open_after_its_end_is_hung_up() -> None:
    async def handler(received: Received, reply: Reply) -> None:
        reply.start_events()
        await reply.event(event([7], "length"))
        await reply.event("[DONE]")
        await reply.until_hung_up()

    async with serving(handler) as (engine, server):
        assert (await sample(engine, on_token=lambda t, p: None)).token_ids == (7,)
        assert await server.all_hung_up()
