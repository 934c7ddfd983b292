"""The messages of vLLM's token-in, token-out route, `/inference/v1/generate`.

vLLM labels its weights with a string, and reports for each completion which tokens were sampled
under which label. Our labels are versions written as text; a server without a label says "default".
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pydantic import BaseModel, FiniteFloat

from agentfly.engines.http_engine import CompletionChunk
from agentfly.errors import ConfigError, EngineError, StaleWeightsError
from agentfly.runtime.http_client import HttpResponse
from agentfly.types import Request, SamplingParams, VersionRuns

PATH = "/inference/v1/generate"

LEAST_TEMPERATURE = 0.01
"""vLLM silently raises lower ones to this."""

UNLABELLED = "default"

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


class LabelSpan(BaseModel):
    """Tokens from `start` up to, but not including, `end` were sampled under one label."""

    version: str
    start: int
    end: int


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

    async def whole(self, answer: HttpResponse) -> CompletionChunk:
        """Read a completion that came in one piece."""
        generation = await answer.json(_Generation, _EXPECTED)
        if not generation.choices:
            raise EngineError(f"vLLM returned no choice; expected {_EXPECTED}")
        return self._chunk(generation.choices[0])

    async def stream(self, answer: HttpResponse) -> AsyncGenerator[CompletionChunk, None]:
        """Read a completion as it is sampled."""
        async for data in answer.events():
            for choice in answer.read(data, _Generation, _EXPECTED).choices:
                yield self._chunk(choice)

    def _chunk(self, choice: _WireChoice) -> CompletionChunk:
        ids = choice.token_ids or []
        content = (choice.logprobs.content if choice.logprobs else None) or []
        if len(content) == len(ids) and [entry.token_id for entry in content] != ids:
            raise EngineError("vLLM returned log-probabilities of other tokens than it sampled")
        self.labels = choice.weight_versions or self.labels
        return CompletionChunk(
            token_ids=ids,
            logprobs=[entry.logprob for entry in content],
            finish_reason=choice.finish_reason,
            stop_reason=choice.stop_reason,
        )


def version_runs(spans: Sequence[LabelSpan], count: int, *, unlabeled: int | None) -> VersionRuns:
    """Return the versions of so many tokens by run length.

    Args:
        spans: As the server returned them.
        count: Number of tokens it returned.
        unlabeled: The version of weights that were never labeled; None when all were, so that
            "default" can only mean that the server has lost them.

    >>> spans = [LabelSpan(version="3", start=0, end=20), LabelSpan(version="4", start=20, end=27)]
    >>> version_runs(spans, 27, unlabeled=None)
    ((3, 20), (4, 7))
    """
    ends = [0, *(span.end for span in spans)]
    starts = [*(span.start for span in spans), count]
    if ends != starts or any(span.start >= span.end for span in spans):
        raise EngineError(
            f"vLLM returned {count} tokens and weights for "
            f"{[(span.start, span.end) for span in spans]}; expected spans that cover all"
        )
    return tuple((_version(span.version, unlabeled), span.end - span.start) for span in spans)


def _version(label: str, unlabeled: int | None) -> int:
    if label == UNLABELLED and unlabeled is not None:
        return unlabeled
    if not label.isdecimal():
        raise StaleWeightsError(
            f"vLLM sampled from weights labeled {label!r}, which this engine never loaded; "
            "expected a number. Was the server restarted, or is somebody else loading weights?"
        )
    return int(label)
