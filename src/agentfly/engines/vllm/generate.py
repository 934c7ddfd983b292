"""The messages of vLLM's token-in, token-out route, `/inference/v1/generate`."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pydantic import BaseModel, FiniteFloat

from agentfly.engines.http_engine import Piece
from agentfly.engines.vllm.versions import LabelSpan
from agentfly.errors import ConfigError, EngineError
from agentfly.runtime.http_client import HttpResponse
from agentfly.types import Request, SamplingParams

PATH = "/inference/v1/generate"

LEAST_TEMPERATURE = 0.01
"""vLLM silently raises lower ones to this."""

_EXPECTED = "a generation with choices[0].token_ids and choices[0].logprobs.content"


def generate_body(
    prompt_ids: Sequence[int],
    params: SamplingParams,
    request: Request,
    *,
    stream: bool,
    seeded: bool = True,
) -> dict[str, Any]:
    """Write the request of one completion."""
    if 0 < params.temperature < LEAST_TEMPERATURE:
        raise ConfigError(
            f"vLLM samples at temperature 0 or from {LEAST_TEMPERATURE} on, got "
            f"{params.temperature:g}"
        )
    return {
        "token_ids": list(prompt_ids),
        "sampling_params": _sampling_params(params, request.seed.value >> 1 if seeded else None),
        "stream": stream,
        "priority": request.priority,
    }


def _sampling_params(params: SamplingParams, seed: int | None) -> dict[str, Any]:
    return {
        "temperature": params.temperature,
        "top_p": params.top_p,
        "top_k": params.top_k,
        "min_p": params.min_p,
        "max_tokens": params.max_tokens,
        "seed": seed,
        "stop": list(params.stop),
        "stop_token_ids": list(params.stop_token_ids),
        # Only what we name ends a turn; and stop strings may be the text of special tokens.
        "ignore_eos": True,
        "skip_special_tokens": False,
        "detokenize": bool(params.stop),
        # That of the sampled token, and no others.
        "logprobs": 0,
    }


class _WireLogprob(BaseModel):
    token_id: int
    logprob: FiniteFloat


class _WireLogprobs(BaseModel):
    content: list[_WireLogprob] | None = None


class _WireChoice(BaseModel):
    token_ids: list[int] | None = None
    logprobs: _WireLogprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    weight_versions: list[LabelSpan] | None = None


class _Generation(BaseModel):
    choices: list[_WireChoice]


class Generation:
    """Reads an answer piece by piece, and keeps the labels of the weights, which come last."""

    def __init__(self) -> None:
        self.labels: list[LabelSpan] | None = None

    async def whole(self, answer: HttpResponse) -> Piece:
        """Read a completion that came in one piece."""
        generation = await answer.json(_Generation, _EXPECTED)
        if not generation.choices:
            raise EngineError(f"vLLM returned no choice; expected {_EXPECTED}")
        return self._piece(generation.choices[0])

    async def stream(self, answer: HttpResponse) -> AsyncGenerator[Piece, None]:
        """Read a completion as it is sampled."""
        async for data in answer.events():
            for choice in answer.read(data, _Generation, _EXPECTED).choices:
                yield self._piece(choice)

    def _piece(self, choice: _WireChoice) -> Piece:
        ids = choice.token_ids or []
        content = (choice.logprobs.content if choice.logprobs else None) or []
        if len(content) == len(ids) and [entry.token_id for entry in content] != ids:
            raise EngineError("vLLM returned log-probabilities of other tokens than it sampled")
        self.labels = choice.weight_versions or self.labels
        return Piece(
            token_ids=ids,
            logprobs=[entry.logprob for entry in content],
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
        )
