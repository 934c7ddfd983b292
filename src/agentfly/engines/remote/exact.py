"""Whether a server's log-probabilities are those that training needs.

A `Completion` records log-probabilities of the temperature-scaled, untruncated distribution. No
parameter of a request asks a server for these; which it gives is a matter of how it was started:

| a server's `logprobs` | are taken | so they are right for |
|---|---|---|
| `scaled`: SGLang | after temperature, before top-p, top-k, min-p | everything |
| `processed`: vLLM with `--logprobs-mode processed_logprobs` | after both | any temperature, no truncation |
| `raw`: vLLM by default | before both | temperature 1, any truncation |
| not known | | temperature 1, no truncation |

Greedy completions record those of temperature 1, which is what all of them give.
"""  # noqa: E501 - a table

from typing import Literal

from agentfly.errors import ConfigError
from agentfly.types import SamplingParams

Logprobs = Literal["scaled", "processed", "raw"]
"""Which distribution a server's log-probabilities are of; see above."""

_TAKES_TRUNCATION = ("scaled", "raw")
_TAKES_TEMPERATURE = ("scaled", "processed")


def require_exact(params: SamplingParams, logprobs: Logprobs | None) -> None:
    """Refuse parameters under which the server's log-probabilities would be wrong."""
    if params.temperature == 0:
        return
    wrong = []
    if params.temperature != 1 and logprobs not in _TAKES_TEMPERATURE:
        wrong.append(f"temperature={params.temperature:g} (expected 0 or 1)")
    if truncates(params) and logprobs not in _TAKES_TRUNCATION:
        wrong.append(
            f"top_p={params.top_p:g}, top_k={params.top_k}, min_p={params.min_p:g} "
            "(expected 1, 0, 0)"
        )
    if wrong:
        raise ConfigError(
            f"a server whose log-probabilities are {logprobs or 'of an unknown kind'!r} can't give "
            f"right ones for {' and '.join(wrong)}. Change that; or say logprobs='scaled' for "
            "SGLang, 'processed' for vLLM started with --logprobs-mode processed_logprobs, 'raw' "
            "for vLLM otherwise; or, where log-probabilities don't matter, use OpenAIChat"
        )


def truncates(params: SamplingParams) -> bool:
    """Tell whether some tokens can't be sampled at all."""
    return params.top_p < 1 or params.top_k > 0 or params.min_p > 0
