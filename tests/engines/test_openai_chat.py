"""The chat path: what is sent, and how an answer is read."""

import json

import pytest
from tests.engines.http_standin import Received, Reply, standing_in
from tests.patience import PATIENCE

from agentfly.engines.openai import OpenAIChat
from agentfly.errors import ConfigError, EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Endpoint
from agentfly.types import Image, Message, SamplingParams, ToolCall, ToolSpec

SEARCH = ToolSpec(name="search", description="Look up.", parameters={"type": "object"})
QUESTION = [Message(role="user", content="Who?")]


def soon(seconds: float = PATIENCE) -> float:
    return LoopClock().now() + seconds


def answering(message: dict[str, object]) -> object:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.json({"choices": [{"message": message, "finish_reason": "stop"}]})

    return handler


async def exchange(
    message: dict[str, object],
    messages: list[Message],
    tools: tuple[ToolSpec, ...] = (),
    params: SamplingParams | None = None,
    **options: object,
) -> tuple[Message, Received]:
    async with standing_in(answering(message)) as server:  # type: ignore[arg-type]
        chat = OpenAIChat(f"{server.url}/v1", model="m", **options)  # type: ignore[arg-type]
        reply = await chat.reply(messages, tools, params or SamplingParams(), deadline=soon())
        await chat.close()
        return reply, server.received[0]


async def test_a_plain_question_sends_only_what_every_server_knows() -> None:
    reply, sent = await exchange({"content": "Me."}, QUESTION)
    assert reply == Message(role="assistant", content="Me.")
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.body == {
        "model": "m",
        "messages": [{"role": "user", "content": "Who?"}],
        "temperature": 1.0,
        "top_p": 1.0,
        "max_tokens": 512,
    }


async def test_no_sampling_parameter_is_dropped() -> None:
    params = SamplingParams(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, max_tokens=9, stop=("x",),
        stop_token_ids=(4,),
    )  # fmt: skip
    _, sent = await exchange(
        {"content": ""},
        QUESTION,
        params=params,
        limit_field="max_completion_tokens",
        extra={"reasoning_effort": "low"},
    )
    rest = {k: v for k, v in sent.body.items() if k not in ("model", "messages")}
    assert rest == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "max_completion_tokens": 9,
        "stop": ["x"],
        "stop_token_ids": [4],
        "reasoning_effort": "low",
    }


async def test_tools_calls_and_results_go_natively() -> None:
    call = ToolCall(id="c1", name="search", arguments='{"q":  "a"}')
    history = [
        *QUESTION,
        Message(role="assistant", content="", reasoning="hm", tool_calls=(call,)),
        Message(role="tool", content="found", tool_call_id="c1", name="search"),
    ]
    _, sent = await exchange({"content": "ok"}, history, (SEARCH,))
    assert sent.body["tools"] == [SEARCH.to_openai()]
    assert sent.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "search", "arguments": '{"q":  "a"}'},
                }
            ],
        },
        {"role": "tool", "content": "found", "tool_call_id": "c1"},
    ]


async def test_calls_that_are_part_of_the_text_are_not_reported_twice() -> None:
    call = ToolCall(id="c1", name="search", arguments="{}")
    history = [Message(role="assistant", content="<search>a</search>", tool_calls=(call,))]
    _, sent = await exchange({"content": "ok"}, history)
    assert sent.body["messages"] == [{"role": "assistant", "content": "<search>a</search>"}]
    assert "tools" not in sent.body


async def test_arguments_that_are_no_json_are_wrapped_so_that_the_server_can_read_them() -> None:
    call = ToolCall(id="c1", name="search", arguments='{"q": ')
    _, sent = await exchange(
        {"content": "ok"}, [Message(role="assistant", tool_calls=(call,))], (SEARCH,)
    )
    function = sent.body["messages"][0]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) == {"malformed": '{"q": '}


async def test_images_go_as_data_urls() -> None:
    picture = Message(role="user", content="What?", images=(Image(data=b"\x01\x02"),))
    _, sent = await exchange({"content": "ok"}, [picture])
    assert sent.body["messages"][0]["content"] == [
        {"type": "text", "text": "What?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}},
    ]


async def test_calls_in_the_answer_are_kept_as_the_model_wrote_them() -> None:
    wire: dict[str, object] = {
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1 }'}},
            {"type": "function", "function": {"name": "g", "arguments": {"y": 2}}},
            {"id": "b", "function": {"name": "h", "arguments": "{broken"}},
        ],
    }
    reply, _ = await exchange(wire, QUESTION)
    assert reply == Message(
        role="assistant",
        content="",
        reasoning="hm",
        tool_calls=(
            ToolCall(id="a", name="f", arguments='{"x": 1 }'),
            ToolCall(id="call_1", name="g", arguments='{"y": 2}'),
            ToolCall(id="b", name="h", arguments="{broken"),
        ),
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "answered: nothing"),
        (b"<html>Welcome</html>", "<html>Welcome</html>"),
        (b'{"choices": []}', "choices: List should have at least 1 item"),
        (b'{"choices": [{"message": {"content": 5}}]}', "choices.0.message.content"),
        (b'{"choices": [{"text": "hi"}]}', "choices.0.message: Field required"),
        (b"[1, 2", "the whole: Invalid JSON"),
        (b"\xff\xfe\x00", "the whole: Invalid JSON"),
    ],
)
async def test_rubbish_is_an_error_that_names_what_was_expected(
    body: bytes, complaint: str
) -> None:
    async def handler(received: Received, reply: Reply) -> None:
        await reply.body(body)

    async with standing_in(handler) as server:
        chat = OpenAIChat(f"{server.url}/v1", model="m")
        with pytest.raises(EngineError) as caught:
            await chat.reply(QUESTION, (), SamplingParams(), deadline=soon())
        await chat.close()
        assert "should have answered a chat completion with choices[0].message" in str(caught.value)
        assert complaint in str(caught.value)
        assert len(server.received) == 1, "rubbish is not asked for twice"


async def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sesame")
    async with standing_in(answering({"content": "ok"})) as server:  # type: ignore[arg-type]
        endpoint = Endpoint(url=server.url, api_key_env="MY_KEY")
        chat = OpenAIChat(endpoint, model="m")
        await chat.reply(QUESTION, (), SamplingParams(), deadline=soon())
        await chat.close()
        assert server.received[0].headers["authorization"] == "Bearer sesame"
    assert "sesame" not in repr(endpoint)


def test_a_missing_key_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"'MY_KEY' is not set.*export MY_KEY="):
        OpenAIChat(Endpoint(url="http://x/v1", api_key_env="MY_KEY"), model="m")


async def test_no_key_is_sent_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sesame")
    _, sent = await exchange({"content": "ok"}, QUESTION)
    assert "authorization" not in sent.headers


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", ""])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="looks like 'http://localhost:8000/v1'"):
        Endpoint(url=url)


def test_limits_must_leave_something() -> None:
    with pytest.raises(ConfigError, match="max_concurrent must be greater than 0, got 0"):
        Endpoint(url="http://x", max_concurrent=0)
    with pytest.raises(ConfigError, match="requests_per_minute"):
        Endpoint(url="http://x", requests_per_minute=0)
