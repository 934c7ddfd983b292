"""Sampler and learner never agree to the last digit, and stale chains agree even less.

Each token is weighted by how much likelier the learner finds it than the sampler did,

    w = π_learner(token) / π_sampler(token),

truncated at a cap (arXiv:1802.01561), or left out where it is beyond one (arXiv:2510.18855). At the
level of sequences w is the geometric mean over the sequence's tokens: their product would drift
with length.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agentfly.algorithms.ratio import log_ratio, sequence_mean
from agentfly.config import Settings
from agentfly.runtime.names import look_up


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Correction where sampler and learner disagree; no change where they agree."""

    __pydantic_config__ = Settings.model_config

    level: Literal["token", "sequence", "none"] = "token"
    how: Literal["truncate", "mask"] = "truncate"
    """`truncate` lets no weight exceed the cap; `mask` leaves out what is above the cap or below
    its inverse."""
    cap: float = 2.0

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise ValueError(f"cap must be 1 or more, or it binds where both agree: got {self.cap}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weight of each token, and where it is not the plain ratio."""

    weights_N: Tensor
    bound_N: Tensor
    """True where the cap took hold."""


def correct(
    correction: Correction, old_logprobs_N: Tensor, sampled_logprobs_N: Tensor, sample_N: Tensor
) -> Weights:
    """Weigh each token; no gradient flows through the weights."""
    level = look_up(correction.level, _LEVELS, "level of correction")
    bound = look_up(correction.how, _BOUNDS, "way of correction")
    log_N = level(log_ratio(old_logprobs_N.detach(), sampled_logprobs_N), sample_N)
    return bound(log_N, math.log(correction.cap))


def _each_token(log_N: Tensor, sample_N: Tensor) -> Tensor:
    return log_N


def _nothing(log_N: Tensor, sample_N: Tensor) -> Tensor:
    return torch.zeros_like(log_N)


def _truncate(log_N: Tensor, log_cap: float) -> Weights:
    return Weights(weights_N=log_N.clamp(max=log_cap).exp(), bound_N=log_N > log_cap)


def _mask(log_N: Tensor, log_cap: float) -> Weights:
    beyond_N = log_N.abs() > log_cap
    return Weights(weights_N=log_N.exp().masked_fill(beyond_N, 0.0), bound_N=beyond_N)


_LEVELS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "token": _each_token,
    "sequence": sequence_mean,
    "none": _nothing,
}
_BOUNDS: Mapping[str, Callable[[Tensor, float], Weights]] = {"truncate": _truncate, "mask": _mask}
