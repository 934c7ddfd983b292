"""Servers that fail in every way: typed errors within the deadline, and no connection left."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.engines.http_standin import Handler, Received, Reply, StandIn, standing_in
from tests.patience import PATIENCE

from agentfly.engines.openai import OpenAIChat
from agentfly.errors import DeadlineError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import Retry
from agentfly.types import Message, SamplingParams

FAST = Retry(attempts=4, first_wait=0.01)
GOOD = {"choices": [{"message": {"content": "fine"}}]}


@asynccontextmanager
async def chatting(
    handler: Handler, **options: object
) -> AsyncIterator[tuple[OpenAIChat, StandIn]]:
    async with standing_in(handler) as server:
        settings = {"retry": FAST, **options}
        chat = OpenAIChat(Endpoint(url=server.url, **settings), model="m")  # type: ignore[arg-type]
        try:
            yield chat, server
        finally:
            await chat.close()
            assert await server.all_hung_up(), "a connection is left open"


async def ask(chat: OpenAIChat, seconds: float = PATIENCE) -> str:
    deadline = LoopClock().now() + seconds
    message = Message(role="user", content="?")
    return (await chat.reply([message], (), SamplingParams(), deadline=deadline)).content


def first(failures: int, fail: Callable[[Reply], object]) -> Handler:
    """Fail so many times, then answer well."""
    seen = 0

    async def handler(received: Received, reply: Reply) -> None:
        nonlocal seen
        seen += 1
        if seen > failures:
            await reply.json(GOOD)
            return
        outcome = fail(reply)
        if asyncio.iscoroutine(outcome):
            await outcome

    return handler


def half_an_answer(reply: Reply) -> None:
    reply.head(200, {"Content-Length": "1000"})
    reply.writer.write(b'{"choices"')
    reply.reset()


@pytest.mark.parametrize(
    "fail",
    [
        lambda reply: reply.json({"error": "busy"}, 429),
        lambda reply: reply.json({"error": "oops"}, 500),
        lambda reply: reply.body(b"<html>Bad Gateway</html>", 502),
        lambda reply: reply.json({}, 503),
        lambda reply: reply.reset(),
        half_an_answer,
    ],
    ids=["429", "500", "502", "503", "reset", "reset in the middle"],
)
async def test_what_may_pass_is_asked_again(fail: Callable[[Reply], object]) -> None:
    async with chatting(first(3, fail)) as (chat, server):
        assert await ask(chat) == "fine"
        assert len(server.received) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 422, 307])
async def test_what_will_not_pass_is_not(status: int) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"error": {"message": "context too long"}}, status)

    async with chatting(handler) as (chat, server):
        with pytest.raises(EngineError, match=rf"answered {status}: .*context too long"):
            await ask(chat)
        assert len(server.received) == 1


async def test_attempts_come_to_an_end() -> None:
    async with chatting(first(99, lambda reply: reply.json({"error": "oops"}, 500))) as (
        chat,
        server,
    ):
        with pytest.raises(EngineError, match=r"answered 500: .*oops.*\(attempt 4 of 4\)"):
            await ask(chat)
        assert len(server.received) == 4


async def test_retry_after_is_honored() -> None:
    def fail(reply: Reply) -> object:
        return reply.json({}, 429, {"Retry-After": "0.4"})

    async with chatting(first(1, fail)) as (chat, _):
        started = time.monotonic()
        assert await ask(chat) == "fine"
        assert time.monotonic() - started >= 0.4


async def test_retry_after_beyond_the_deadline_ends_at_once() -> None:
    def fail(reply: Reply) -> object:
        return reply.json({}, 429, {"Retry-After": "6000"})

    async with chatting(first(1, fail)) as (chat, _):
        started = time.monotonic()
        with pytest.raises(EngineError, match="6,000 s from now, would come after the deadline"):
            await ask(chat, seconds=3000)
        assert time.monotonic() - started < PATIENCE


async def hang(received: Received, reply: Reply) -> None:
    await reply.until_hung_up()


async def trickle(received: Received, reply: Reply) -> None:
    reply.head(200, {"Content-Length": "100000"})
    while True:
        await reply.send(b" ")
        await asyncio.sleep(0.02)


async def flood(received: Received, reply: Reply) -> None:
    reply.keep_alive = False
    reply.head(200, {"Connection": "close"})
    while True:
        await reply.send(b" " * 2**20)


@pytest.mark.parametrize("handler", [hang, trickle])
async def test_a_server_that_is_too_slow_ends_at_the_deadline(handler: Handler) -> None:
    async with chatting(handler) as (chat, server):
        started = time.monotonic()
        with pytest.raises(DeadlineError, match=r"gave no whole answer within 0(\.\d+)? s"):
            await ask(chat, seconds=0.3)
        assert time.monotonic() - started < PATIENCE
        assert await server.all_hung_up(), "the connection outlives its deadline"


@pytest.mark.parametrize("handler", [hang, trickle])
async def test_one_attempt_is_bounded_even_without_a_deadline(handler: Handler) -> None:
    async with chatting(handler, request_seconds=0.1) as (chat, server):
        with pytest.raises(EngineError, match=r"no whole answer within 0.1 s \(attempt 4 of 4\)"):
            await ask(chat, seconds=float("inf"))
        assert len(server.received) == 4


async def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentfly.runtime.http_client.MAX_BYTES", 4 * 2**20)
    async with chatting(flood) as (chat, server):
        with pytest.raises(EngineError, match="answered more than 4 MiB"):
            await ask(chat)
        assert await server.all_hung_up(), "nobody reads on, so the connection must be closed"


async def test_cancelling_closes_the_connection() -> None:
    async with chatting(hang) as (chat, server):
        task = asyncio.get_running_loop().create_task(ask(chat))
        await server.until_received(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await server.all_hung_up()


async def test_closing_ends_every_waiter() -> None:
    async with chatting(hang, max_concurrent=2) as (chat, server):
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(ask(chat)) for _ in range(5)]
        await server.until_received(2)
        await chat.close()
        for task in tasks:
            with pytest.raises(EngineError, match="the client was closed"):
                await task
        with pytest.raises(EngineError, match="the client is closed"):
            await ask(chat)


async def test_nobody_listens() -> None:
    async with standing_in(hang) as server:
        url = server.url
    chat = OpenAIChat(Endpoint(url=url, retry=FAST), model="m")
    with pytest.raises(EngineError, match=r"the connection broke: ConnectError.*attempt 4 of 4"):
        await ask(chat)
    await chat.close()


async def test_no_more_at_once_than_allowed_and_none_is_lost() -> None:
    busy = most = 0

    async def handler(received: Received, reply: Reply) -> None:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.01)
        busy -= 1
        await reply.json(GOOD)

    async with chatting(handler, max_concurrent=3) as (chat, server):
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(chat)) for _ in range(30)]
        assert [task.result() for task in tasks] == ["fine"] * 30
        assert len(server.received) == 30
        assert most == 3


async def test_a_place_is_free_again_after_any_end() -> None:
    ends = iter([hang, trickle, first(1, lambda reply: reply.reset())])

    async def handler(received: Received, reply: Reply) -> None:
        await next(ends, first(0, print))(received, reply)

    async with chatting(handler, max_concurrent=1, retry=Retry(attempts=1)) as (chat, _):
        for _ in range(3):
            with pytest.raises((EngineError, DeadlineError)):
                await ask(chat, seconds=0.3)
        assert await ask(chat) == "fine"


def test_one_chat_serves_several_event_loops() -> None:
    async def once(chat: OpenAIChat | None) -> OpenAIChat:
        async with standing_in(first(0, print)) as server:
            chat = chat or OpenAIChat(Endpoint(url=server.url, max_concurrent=1), model="m")
            object.__setattr__(chat._server.endpoint, "url", server.url)
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(ask(chat))
        return chat

    asyncio.run(once(asyncio.run(once(None))))
