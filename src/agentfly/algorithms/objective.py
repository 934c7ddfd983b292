"""An algorithm's whole objective on one microbatch: the one thing that the learner differentiates.

correction × loss + β · KL - entropy bonus       for each token, then aggregated
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from agentfly.algorithms.algorithm import Algorithm
from agentfly.algorithms.correction import correct
from agentfly.algorithms.function_types import LossInput
from agentfly.algorithms.kl import Kl, kl_estimate
from agentfly.algorithms.ratio import log_ratio
from agentfly.errors import ConfigError

LOWEST_LOGPROB = -1e4
"""Samplers write numbers such as -1e30 or -inf for impossible tokens: no sum survives those. It is
below any log-probability that float32 logits produce."""

NOT_FINITE = "loss/not_finite"
"""Metric of the tokens whose loss is NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """The microbatch's share of the step's loss, and what was seen at each token."""

    loss: Tensor
    metrics: Mapping[str, Tensor]
    """Per token, without gradient; under the names that `METRICS` explains."""


def objective(algorithm: Algorithm, x: LossInput) -> Objective:
    """Correct an algorithm's loss, add what is penalized, and aggregate."""
    x = _bounded(x)
    output = algorithm.loss(x)
    _require_gradient(algorithm, x, output.loss_N)
    weights = correct(algorithm.correction, x.old_logprobs_N, x.sampled_logprobs_N, x.sample_N)
    loss_N = weights.weights_N * _credited(x, output.loss_N) + _penalty(algorithm, x)
    metrics = {
        **_observed(algorithm, x),
        "mismatch/weight": weights.weights_N,
        "mismatch/bound_share": weights.bound_N,
        NOT_FINITE: ~output.loss_N.isfinite(),
        **{f"loss/{name}": values_N for name, values_N in output.metrics.items()},
    }
    return Objective(
        loss=algorithm.aggregate(loss_N, x),
        metrics={name: values_N.detach() for name, values_N in metrics.items()},
    )


def _require_gradient(algorithm: Algorithm, x: LossInput, loss_N: Tensor) -> None:
    """Refuse a loss without a gradient, whatever other terms there are."""
    if x.logprobs_N.requires_grad and not loss_N.requires_grad:
        raise ConfigError(
            f"the loss of {algorithm.name} carries no gradient: it must depend on logprobs_N, and "
            "may not detach it"
        )


def _credited(x: LossInput, loss_N: Tensor) -> Tensor:
    """Leave out tokens without credit, whatever a loss makes of an advantage of 0."""
    return loss_N if x.credited_N is None else loss_N.where(x.credited_N, 0.0)


def _penalty(algorithm: Algorithm, x: LossInput) -> Tensor:
    penalty_N = torch.zeros_like(x.logprobs_N)
    if algorithm.kl is not None and algorithm.kl.place == "loss":
        penalty_N = penalty_N + algorithm.kl.coefficient * _divergence(algorithm.kl, x)
    if algorithm.entropy_coefficient:
        assert x.entropy_N is not None, "an entropy bonus needs the entropy of each token"
        penalty_N = penalty_N - algorithm.entropy_coefficient * x.entropy_N
    return penalty_N


def _observed(algorithm: Algorithm, x: LossInput) -> dict[str, Tensor]:
    observed = {"policy/ratio": log_ratio(x.logprobs_N, x.old_logprobs_N).exp()}
    if algorithm.kl is not None and x.reference_logprobs_N is not None:
        observed["policy/kl"] = _divergence(algorithm.kl, x)
    if x.entropy_N is not None:
        observed["policy/entropy"] = x.entropy_N
    return observed


def _divergence(kl: Kl, x: LossInput) -> Tensor:
    assert x.reference_logprobs_N is not None, "a KL term needs the reference's log-probabilities"
    return kl_estimate(x.logprobs_N, x.reference_logprobs_N, kl.estimator)


def _bounded(x: LossInput) -> LossInput:
    reference_N = x.reference_logprobs_N
    return replace(
        x,
        logprobs_N=x.logprobs_N.clamp(min=LOWEST_LOGPROB),
        old_logprobs_N=x.old_logprobs_N.clamp(min=LOWEST_LOGPROB),
        sampled_logprobs_N=x.sampled_logprobs_N.clamp(min=LOWEST_LOGPROB),
        reference_logprobs_N=None if reference_N is None else reference_N.clamp(min=LOWEST_LOGPROB),
    )
