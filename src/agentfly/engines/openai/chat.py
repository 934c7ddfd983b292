"""Chat with any OpenAI-compatible server: messages in, a message out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue

from agentfly.engines.http_engine import engine_errors
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient
from agentfly.types import Clock, Message, SamplingParams, Seed, ToolCall, ToolSpec

LimitField = Literal["max_tokens", "max_completion_tokens"]
"""Name of the limit on new tokens; OpenAI's reasoning models take the second only."""


class OpenAIChat:
    """A `ChatModel` over `/chat/completions`: good for evaluation and data, not for training.

    >>> model = OpenAIChat("http://localhost:8000/v1", model="qwen3-8b")        # doctest: +SKIP
    >>> judge = OpenAIChat(                                                     # doctest: +SKIP
    ...     Endpoint(url="https://api.openai.com/v1", api_key_env="OPENAI_API_KEY",
    ...              requests_per_minute=500, max_concurrent=32),
    ...     model="gpt-5", limit_field="max_completion_tokens")
    >>> await judge.reply([Message(role="user", content="2+2?")], (),           # doctest: +SKIP
    ...                   SamplingParams(), deadline=clock.now() + 60)
    Message(role='assistant', content='4', ...)

    The tools are passed natively, for the server's own template and parser. An agent that teaches
    its tools in the prompt passes none, and reads the calls from the text by itself.

    Sampling parameters that OpenAI doesn't know (top_k, min_p, stop_token_ids) are sent only when
    they are set; a server that doesn't know them either refuses the request.
    """

    def __init__(
        self,
        server: str | Endpoint,
        *,
        model: str,
        limit_field: LimitField = "max_tokens",
        extra: Mapping[str, Any] | None = None,
        seed: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            server: Its address, or an endpoint with key, limits and retries.
            model: The server's name for the model.
            limit_field: This server's name for the limit on new tokens.
            extra: Further fields of every request, such as {"reasoning_effort": "low"}.
            seed: Of the waits between attempts.
            clock: Of the deadlines; by default the running event loop's.
        """
        self._server = HttpClient(Endpoint.of(server), clock or LoopClock())
        self._model = model
        self._limit_field = limit_field
        self._extra = dict(extra or {})
        self._seed = Seed(seed)
        self._calls = count()
        self.usage = Usage()
        """Tokens that the server has counted so far."""

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Answer the conversation; raise EngineError, or DeadlineError at the deadline."""
        with engine_errors():
            answer = await self._server.request(
                Call(path="/chat/completions", body=self._body(messages, tools, params)),
                lambda answer: answer.json(ChatAnswer, "a chat completion with choices[0].message"),
                deadline=deadline,
                seed=self._seed.child(next(self._calls)),
            )
        self.usage.add(answer.usage)
        return answer.to_message()

    async def close(self) -> None:
        """Free everything. Waiters end with EngineError."""
        await self._server.close()

    def _body(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], params: SamplingParams
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [to_wire(message, native_calls=bool(tools)) for message in messages],
            "temperature": params.temperature,
            "top_p": params.top_p,
            self._limit_field: params.max_tokens,
        }
        optional = {
            "tools": [spec.to_openai() for spec in tools],
            "stop": list(params.stop),
            "stop_token_ids": list(params.stop_token_ids),
            "top_k": params.top_k,
            "min_p": params.min_p,
        }
        return body | {name: value for name, value in optional.items() if value} | self._extra


def to_wire(message: Message, *, native_calls: bool) -> dict[str, Any]:
    """Write a message as OpenAI's chat API takes it.

    Reasoning is left out: servers refuse it, or ignore it.

    Args:
        message: Any message of the conversation.
        native_calls: Whether the server gets the tools. If not, the calls are part of the text
            that the model wrote, and are not repeated.
    """
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.tool_calls and native_calls:
        wire["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _content(message: Message) -> str | list[dict[str, Any]]:
    if not message.images:
        return message.content
    images = [
        {"type": "image_url", "image_url": {"url": image.data_url()}} for image in message.images
    ]
    return [{"type": "text", "text": message.content}, *images]


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _arguments(raw: str) -> str:
    """Return arguments that a server can parse: many refuse a conversation for one broken call."""
    try:
        json.loads(raw)
    except ValueError:
        return json.dumps({"malformed": raw})
    return raw


class _WireFunction(BaseModel):
    name: str
    arguments: JsonValue = ""


class _WireCall(BaseModel):
    id: str | None = None
    function: _WireFunction


class _WireMessage(BaseModel):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_WireCall] | None = None


class _WireChoice(BaseModel):
    message: _WireMessage


@dataclass(slots=True)
class Usage:
    """Tokens of a server's answers, as it counts and bills them."""

    prompt_tokens: int = 0
    sampled_tokens: int = 0
    uncounted: int = 0
    """Answers without a count."""

    def add(self, counted: JsonValue) -> None:
        """Add the tokens of one answer; what a server says about them may be anything."""
        match counted:
            case {"prompt_tokens": int(prompt), "completion_tokens": int(sampled)}:
                self.prompt_tokens += prompt
                self.sampled_tokens += sampled
            case _:
                self.uncounted += 1


class ChatAnswer(BaseModel):
    """The part of a chat completion that matters here."""

    choices: list[_WireChoice] = Field(min_length=1)
    usage: JsonValue = None

    def to_message(self) -> Message:
        """Return what the model said."""
        said = self.choices[0].message
        return Message(
            role="assistant",
            content=said.content or "",
            reasoning=said.reasoning_content or said.reasoning or None,
            tool_calls=_calls(said.tool_calls or ()),
        )


def _calls(calls: Sequence[_WireCall]) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=call.id or f"call_{index}",
            name=call.function.name,
            arguments=_raw(call.function.arguments),
        )
        for index, call in enumerate(calls)
    )


def _raw(arguments: JsonValue) -> str:
    """Keep the text that the model wrote; some servers have parsed it already."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)
