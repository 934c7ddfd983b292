"""The divergence of the policy from its reference, estimated at the sampled tokens.

With d = log π - log π_ref (http://joschu.net/blog/kl-approx.html):

    k1 = d                  unbiased, and negative about half of the time
    k2 = d² / 2             as a loss its gradient is that of the divergence (arXiv:2501.03262)
    k3 = exp(-d) + d - 1    unbiased and never negative

As a loss k1 pulls nowhere on average, since its gradient is that of log π alone (arXiv:2506.09477):
it is for the reward only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from agentfly.algorithms.ratio import log_ratio
from agentfly.config import Settings
from agentfly.errors import ConfigError
from agentfly.runtime.names import look_up


def k1(difference_N: Tensor) -> Tensor:
    """Estimate by the difference itself."""
    return difference_N


def k2(difference_N: Tensor) -> Tensor:
    """Estimate by half its square."""
    return difference_N.square() / 2


def k3(difference_N: Tensor) -> Tensor:
    """Estimate by what is left of the exponential after its first two terms."""
    return (-difference_N).exp() + difference_N - 1


ESTIMATORS: Mapping[str, Callable[[Tensor], Tensor]] = {"k1": k1, "k2": k2, "k3": k3}


def kl_estimate(logprobs_N: Tensor, reference_logprobs_N: Tensor, estimator: str) -> Tensor:
    """Estimate the divergence at each token.

    >>> import torch
    >>> kl_estimate(torch.tensor([-1.0]), torch.tensor([-3.0]), "k2")
    tensor([2.])
    """
    estimate = look_up(estimator, ESTIMATORS, "estimator of the KL divergence")
    return estimate(log_ratio(logprobs_N, reference_logprobs_N))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kl:
    """Strength and form of the KL penalty toward the reference."""

    __pydantic_config__ = Settings.model_config

    coefficient: float = 0.0
    """0 is off: no reference is computed then."""
    estimator: Literal["k1", "k2", "k3"] = "k3"
    place: Literal["loss", "reward"] = "loss"
    """A term of the loss, or taken off each token's reward before advantages are computed."""

    def __post_init__(self) -> None:
        if self.coefficient < 0:
            raise ConfigError(f"coefficient must be 0 (off) or more: got {self.coefficient}")
        if self.place not in ("loss", "reward"):
            raise ConfigError(f"place must be 'loss' or 'reward': got {self.place!r}")
        if (self.estimator, self.place) == ("k1", "loss"):
            raise ConfigError(
                "estimator 'k1' pulls nowhere on average in the loss: take 'k2' or 'k3' there, or "
                "place = 'reward'"
            )
