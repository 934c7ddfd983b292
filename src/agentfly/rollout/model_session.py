"""A chain's session with its model: through an engine with tokens, or through a chat server."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from agentfly.errors import AgentError, EngineError, boundary
from agentfly.rollout.chain_limits import Limits
from agentfly.rollout.chain_time import TimeLimit, Wait
from agentfly.runtime.clock import in_seconds
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
    Seed,
    StopReason,
    ToolSpec,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTurn:
    """One generation, with the context ids that precede it since the model's last token."""

    context_ids: tuple[int, ...]
    completion: Completion | None
    message: Message
    reasoning_spans: tuple[tuple[int, int], ...] = ()
    new_stream: bool = False
    """Whether the context is a whole prompt, not the continuation of the last turn."""


class ModelSession(Protocol):
    """One chain's conversation with its model."""

    def open(self, messages: Sequence[Message]) -> None:
        """Start the conversation with the opening messages."""

    def observe(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        """Add the replies to the last turn; `history` ends with that turn's message."""

    def limit_reached(self) -> StopReason | None:
        """Return the limit that forbids another turn; None if there is none."""

    async def generate(self, turn: int, seed: Seed, on_token: OnToken | None) -> ModelTurn:
        """Generate the next turn."""


class EngineSession:
    """Session with an engine: one growing list of ids, whose sampled part is never re-tokenized."""

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        params: SamplingParams,
        limits: Limits,
        time: TimeLimit,
        attempt: Attempt,
        tools: Sequence[ToolSpec],
    ) -> None:
        self._engine = engine
        self._queue = _UnchargedQueue(engine, limits, time)
        self._renderer = renderer
        self._params = with_stops(params, renderer)
        self._user_stops = params.stop
        self._limits = limits
        self._time = time
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

    def observe(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        assert self._completion is not None, "observe follows generate"
        with boundary(AgentError, "rendering what answers the turn"):
            extension = self._renderer.extend(history, self._completion, replies, self._tools)
        self._context = extension.token_ids
        self._new_stream = extension.new_stream
        if extension.new_stream:
            self._ids = []
        self._ids += extension.token_ids

    def limit_reached(self) -> StopReason | None:
        if self._sampled >= self._limits.max_tokens:
            return StopReason.TOKEN_LIMIT
        if len(self._ids) >= self._limits.context_length:
            return StopReason.CONTEXT_LIMIT
        return None

    async def generate(self, turn: int, seed: Seed, on_token: OnToken | None) -> ModelTurn:
        request = Request(
            chain_id=self._attempt.chain_id,
            group_id=self._attempt.group_id,
            turn=turn,
            seed=seed,
        )
        params, max_tokens = self._params, self._max_new_tokens()
        if max_tokens != params.max_tokens:
            params = replace(params, max_tokens=max_tokens)
        with boundary(EngineError, f"sampling turn {turn}"):
            reports_start = getattr(self._engine, "reports_start", False)
            sampling = sample_turn(
                self._queue if reports_start else self._engine,
                self._renderer,
                self._ids,
                params,
                request=request,
                deadline=self._time.deadline,
                on_token=on_token,
            )
            completion = await supervised(sampling, f"sampling turn {turn}")
        self._completion = completion
        self._ids += completion.token_ids
        self._sampled += len(completion.token_ids)
        parsed = self._renderer.parse(completion, self._tools)
        return ModelTurn(
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

    def _max_new_tokens(self) -> int:
        left = min(
            self._limits.max_tokens - self._sampled,
            self._limits.context_length - len(self._ids),
        )
        return int(min(self._params.max_tokens, left))


class _UnchargedQueue:
    """Wrapper of an engine that reports starts: does not charge its queue to the chain."""

    def __init__(self, engine: Engine, limits: Limits, time: TimeLimit) -> None:
        self._engine = engine
        self._longest = limits.queue_seconds
        self._time = time

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Sample; pause the chain's countdown until the engine has started."""
        del deadline  # the chain's own, which the wait moves
        clock, queue = self._time.clock, self._time.stop()
        try:
            async with clock.timeout_at(clock.now() + self._longest) as patience:
                started = partial(_end_wait, queue, patience)
                latest = self._time.deadline + self._longest
                return await self._engine.sample(
                    prompt_ids,
                    params,
                    request=replace(request, on_started=started),
                    deadline=latest,
                    on_token=on_token,
                )
        except TimeoutError as error:
            if queue.ended:
                raise
            raise EngineError(
                f"the engine had no room for turn {request.turn} within {in_seconds(self._longest)}"
            ) from error
        finally:
            queue.end()

    async def close(self) -> None:
        """Do nothing: the engine is shared by all chains."""


def _end_wait(queue: Wait, patience: asyncio.Timeout) -> None:
    queue.end()  # from here on the chain's own limit applies
    patience.reschedule(None)


class ChatSession:
    """Session with a chat server, whose turns have no ids: for evaluation, not for training."""

    def __init__(
        self,
        model: ChatModel,
        params: SamplingParams,
        time: TimeLimit,
        tools: Sequence[ToolSpec],
    ) -> None:
        self._model = model
        self._params = params
        self._time = time
        self._tools = tools
        self._history: list[Message] = []

    def open(self, messages: Sequence[Message]) -> None:
        self._history = list(messages)

    def observe(self, history: Sequence[Message], replies: Sequence[Message]) -> None:
        self._history = [*history, *replies]

    def limit_reached(self) -> StopReason | None:
        return None

    async def generate(self, turn: int, seed: Seed, on_token: OnToken | None) -> ModelTurn:
        del seed, on_token
        with boundary(EngineError, f"asking for turn {turn}"):
            reply = self._model.reply(
                self._history, self._tools, self._params, deadline=self._time.deadline
            )
            message = await supervised(reply, f"asking for turn {turn}")
        return ModelTurn(context_ids=(), completion=None, message=message)


async def sample_turn(
    engine: Engine,
    renderer: Renderer,
    prompt_ids: Sequence[int],
    params: SamplingParams,
    *,
    request: Request,
    deadline: float,
    on_token: OnToken | None = None,
) -> Completion:
    """Sample a turn; continue where the engine stopped at a token that only closes reasoning."""
    completion = await engine.sample(
        prompt_ids, params, request=request, deadline=deadline, on_token=on_token
    )
    goes_on = getattr(renderer, "goes_on", None)
    while goes_on is not None and goes_on(completion):
        sampled = len(completion.token_ids)
        if sampled >= params.max_tokens:
            return replace(completion, finish_reason=FinishReason.LENGTH)
        more = await engine.sample(
            [*prompt_ids, *completion.token_ids],
            replace(params, max_tokens=params.max_tokens - sampled),
            request=replace(request, seed=request.seed.child("part", sampled)),
            deadline=deadline,
            on_token=on_token,
        )
        completion = completion.followed_by(more)
    return completion


def with_stops(params: SamplingParams, renderer: Renderer) -> SamplingParams:
    """Add the stop tokens and strings of the template and format to the user's own."""
    return replace(
        params,
        stop=tuple(dict.fromkeys((*params.stop, *renderer.stop_strings))),
        stop_token_ids=tuple(dict.fromkeys((*renderer.stop_token_ids, *params.stop_token_ids))),
    )
