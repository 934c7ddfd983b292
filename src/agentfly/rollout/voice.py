"""How a chain's model speaks: through an engine, token by token, or through a chat server."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agentfly.errors import AgentError, EngineError, boundary
from agentfly.rollout.limits import Limits
from agentfly.runtime.invoke import supervised
from agentfly.types import (
    Attempt,
    ChatModel,
    Completion,
    Engine,
    FinishReason,
    Message,
    OnToken,
    Renderer,
    Request,
    SamplingParams,
    StopReason,
    ToolSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Utterance:
    """What the model said, and the ids that were put before it since its last token."""

    context_ids: tuple[int, ...]
    completion: Completion | None
    message: Message
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    new_stream: bool = False
    """Whether the context is a whole prompt, not the continuation of the last turn."""


class Voice(Protocol):
    """One chain's side of the conversation with its model."""

    def open(self, messages: Sequence[Message]) -> None:
        """Take the opening messages."""

    def hear(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        """Take what answered the last turn; `history` ends with that turn's message."""

    def exhausted(self) -> StopReason | None:
        """Say whether there is room for another turn."""

    async def speak(self, turn: int, deadline: float, on_token: OnToken | None) -> Utterance:
        """Generate the next turn."""


class TokenVoice:
    """Keeps one growing list of ids: what was sampled is never tokenised again."""

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        params: SamplingParams,
        limits: Limits,
        attempt: Attempt,
        tools: Sequence[ToolSpec],
    ) -> None:
        self._engine = engine
        self._renderer = renderer
        self._params = with_stops(params, renderer)
        self._user_stops = params.stop
        self._limits = limits
        self._attempt = attempt
        self._tools = tools
        self._ids: list[int] = []
        self._context: tuple[int, ...] = ()
        self._new_stream = True
        self._completion: Completion | None = None
        self._sampled = 0

    def open(self, messages: Sequence[Message]) -> None:
        with boundary(AgentError, "rendering the first prompt"):
            self._context = self._renderer.open(messages, self._tools)
        self._ids = list(self._context)

    def hear(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        assert self._completion is not None, "hear follows speak"
        with boundary(AgentError, "rendering what answers the turn"):
            extension = self._renderer.extend(history, self._completion, replies, self._tools)
        self._context = extension.token_ids
        self._new_stream = extension.new_stream
        if extension.new_stream:
            self._ids = []
        self._ids += extension.token_ids

    def exhausted(self) -> StopReason | None:
        if self._sampled >= self._limits.max_tokens:
            return StopReason.TOKEN_LIMIT
        if len(self._ids) >= self._limits.context_length:
            return StopReason.CONTEXT_LIMIT
        return None

    async def speak(self, turn: int, deadline: float, on_token: OnToken | None) -> Utterance:
        request = Request(
            chain_id=self._attempt.chain_id,
            group_id=self._attempt.group_id,
            turn=turn,
            seed=self._attempt.seed.child("turn", turn),
        )
        room = self._room()
        params = self._params if room == self._params.max_tokens else self._bounded(room)
        with boundary(EngineError, f"sampling turn {turn}"):
            sampling = self._engine.sample(
                self._ids, params, request=request, deadline=deadline, on_token=on_token
            )
            completion = await supervised(sampling, f"sampling turn {turn}")
        self._completion = completion
        self._ids += completion.token_ids
        self._sampled += len(completion.token_ids)
        parsed = self._renderer.parse(completion)
        return Utterance(
            context_ids=self._context,
            completion=completion,
            message=self._cut_at_stop(parsed.message, completion),
            reasoning_spans=parsed.reasoning_spans,
            new_stream=self._new_stream,
        )

    def _cut_at_stop(self, message: Message, completion: Completion) -> Message:
        """Leave the user's stop string, and what follows it, out of the text; the ids stay."""
        if completion.finish_reason is not FinishReason.STOP_STRING:
            return message
        ends = [message.content.find(string) for string in self._user_stops]
        found = [end for end in ends if end >= 0]
        return replace(message, content=message.content[: min(found)]) if found else message

    def _bounded(self, room: int) -> SamplingParams:
        return replace(self._params, max_tokens=room)

    def _room(self) -> int:
        left = min(
            self._limits.max_tokens - self._sampled,
            self._limits.context_length - len(self._ids),
        )
        return int(min(self._params.max_tokens, left))


class ChatVoice:
    """Speaks through a server that gives no ids: such turns can be evaluated, not trained on."""

    def __init__(self, model: ChatModel, params: SamplingParams, tools: Sequence[ToolSpec]) -> None:
        self._model = model
        self._params = params
        self._tools = tools
        self._history: list[Message] = []

    def open(self, messages: Sequence[Message]) -> None:
        self._history = list(messages)

    def hear(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        self._history = [*history, *replies]

    def exhausted(self) -> StopReason | None:
        return None

    async def speak(self, turn: int, deadline: float, on_token: OnToken | None) -> Utterance:
        del on_token
        with boundary(EngineError, f"asking for turn {turn}"):
            reply = self._model.reply(self._history, self._tools, self._params, deadline=deadline)
            message = await supervised(reply, f"asking for turn {turn}")
        return Utterance(context_ids=(), completion=None, message=message)


def with_stops(params: SamplingParams, renderer: Renderer) -> SamplingParams:
    """Add what ends a turn in this template and format to what the user asked for."""
    return replace(
        params,
        stop=tuple(dict.fromkeys((*params.stop, *renderer.stop_strings))),
        stop_token_ids=tuple(dict.fromkeys((*renderer.stop_token_ids, *params.stop_token_ids))),
    )
