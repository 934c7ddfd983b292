"""Token ids in, token ids and log-probabilities out, over `/completions`."""

import math
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pydantic import AliasChoices, BaseModel, Field, FiniteFloat

from agentfly.engines.http_engine import (
    CompletionChunk,
    Logprobs,
    PartialCompletion,
    engine_errors,
    one_version,
    require_exact,
)
from agentfly.errors import EngineError
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.http_client import Call, Endpoint, HttpClient, HttpResponse
from agentfly.types import Clock, Completion, OnToken, Request, SamplingParams, Tokenizer

_EXPECTED = "a completion with choices[0].token_ids and choices[0].logprobs.token_logprobs"


class OpenAICompletions:
    """An `Engine` over a server that takes and gives token ids: vLLM, SGLang, and their like.

    >>> engine = OpenAICompletions("http://localhost:30000/v1", model="qwen3-8b",  # doctest: +SKIP
    ...                            logprobs="scaled")

    It asks for `return_token_ids` and `logprobs`; a server that gives neither is refused at the
    first completion, and `OpenAIChat` is the way to use it. Which parameters give the
    log-probabilities that training needs depends on the server: see
    `agentfly.engines.http_engine`.

    Such a server has no interface for new weights, so it can't be trained. Where its weights are
    replaced by other means, `set_version` says under which version tokens are recorded.
    """

    reports_start = True
    """When a request is sent: what it waits inside the server is not known."""

    def __init__(
        self,
        server: str | Endpoint,
        *,
        model: str,
        logprobs: Logprobs | None = None,
        tokenizer: Tokenizer | None = None,
        context_length: float = math.inf,
        version: int = 0,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            server: Its address, or an endpoint with key, limits and retries.
            model: The server's name for the model.
            logprobs: Which distribution the server's log-probabilities are of, if you know.
            tokenizer: For agents that make their renderer from it; the engine needs none.
            context_length: The longest sequence that the server takes, if you know: a chain that
                grows longer then ends by that limit, instead of by the server's refusal.
            version: Of the server's weights as they are now.
            clock: Of the deadlines; by default the running event loop's.
        """
        self.tokenizer = tokenizer
        self.context_length = context_length
        self._server = HttpClient(Endpoint.of(server), clock or LoopClock())
        self._model = model
        self._logprobs = logprobs
        self._version = version

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Continue the prompt; raise EngineError, or DeadlineError at the deadline."""
        require_exact(params, self._logprobs)
        version = self._version
        collected = PartialCompletion(params, on_token)
        body = self._body(prompt_ids, params, request) | {"stream": on_token is not None}

        async def read(answer: HttpResponse) -> None:
            if on_token is None:
                collected.add(_chunk(await answer.json(_Answer, _EXPECTED), prompt_ids))
            else:
                await collected.add_all(_chunks(answer, prompt_ids))

        with engine_errors():
            await self._server.request(
                Call(path="/completions", body=body),
                read,
                deadline=deadline,
                seed=request.seed.child("retry"),
                on_started=request.on_started,
            )
        if self._version != version:
            raise EngineError(
                f"the server's weights changed from version {version} to {self._version} under "
                "this completion, and it doesn't say which tokens are whose"
            )
        return collected.completion(one_version(version))

    def set_version(self, version: int) -> None:
        """Record tokens of requests from now on under another version of the weights."""
        self._version = version

    async def close(self) -> None:
        """Free everything. Waiters end with EngineError."""
        await self._server.close()

    def _body(
        self, prompt_ids: Sequence[int], params: SamplingParams, request: Request
    ) -> dict[str, Any]:
        return {
            "model": self._model,
            "prompt": list(prompt_ids),
            "return_token_ids": True,
            "logprobs": 1,
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k or -1,
            "min_p": params.min_p,
            "stop": list(params.stop),
            "stop_token_ids": list(params.stop_token_ids),
            # Only what we name ends a turn; and stop strings may be the text of special tokens.
            "ignore_eos": True,
            "skip_special_tokens": False,
            # A model's own generation config would set these behind our back.
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "seed": request.seed.value >> 1,
        }


class _WireLogprobs(BaseModel):
    token_logprobs: list[FiniteFloat | None]


class _WireChoice(BaseModel):
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    logprobs: _WireLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = Field(
        default=None, validation_alias=AliasChoices("stop_reason", "matched_stop")
    )


class _Answer(BaseModel):
    choices: list[_WireChoice]


async def _chunks(
    answer: HttpResponse, prompt_ids: Sequence[int]
) -> AsyncGenerator[CompletionChunk, None]:
    async for data in answer.events():
        event = answer.read(data, _Answer, _EXPECTED)
        if event.choices:
            yield _chunk(event, prompt_ids)


def _chunk(answer: _Answer, prompt_ids: Sequence[int]) -> CompletionChunk:
    if not answer.choices:
        raise EngineError("the server returned no choice; expected one completion")
    choice = answer.choices[0]
    if choice.token_ids is None or (choice.logprobs is None and choice.token_ids):
        raise EngineError(
            f"the server returned {'no token ids' if choice.token_ids is None else 'no logprobs'}, "
            "so its completions can't be trained on. Use one that knows `return_token_ids` "
            "(vLLM, SGLang), or OpenAIChat for evaluation and data"
        )
    if choice.prompt_token_ids is not None and choice.prompt_token_ids != list(prompt_ids):
        raise EngineError(
            f"the server changed the prompt: {len(prompt_ids)} tokens were sent, and it sampled "
            f"after {len(choice.prompt_token_ids)}. Does it add a start token by itself?"
        )
    return CompletionChunk(
        token_ids=choice.token_ids,
        logprobs=choice.logprobs.token_logprobs if choice.logprobs else (),
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
    )
