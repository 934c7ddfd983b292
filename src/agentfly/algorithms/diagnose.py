"""Diagnostic metrics of a step: every name once, with its meaning."""

from collections.abc import Mapping

import torch
from torch import Tensor

from agentfly.algorithms.function_types import AdvantageInput, AdvantageOutput
from agentfly.algorithms.kl import k3
from agentfly.algorithms.objective import LOWEST_LOGPROB, NOT_FINITE
from agentfly.algorithms.ratio import log_ratio

METRICS: Mapping[str, str] = {
    "advantages/mean": "Mean advantage of the trained tokens.",
    "advantages/std": "Standard deviation of the trained tokens' advantages.",
    "advantages/unused_groups": "Share of the groups without credit: fewer than two scored "
    "chains, or no spread.",
    "advantages/not_finite": "Tokens with credit whose advantage was NaN or infinite.",
    "critic/explained_variance": "Share of the returns' variance that the critic predicted.",
    "policy/ratio": "Ratio of a token's probability to that before the step, mean over tokens.",
    "policy/ratio_min": "The smallest such ratio.",
    "policy/ratio_max": "The largest such ratio.",
    "policy/kl": "Divergence from the reference per token, by the estimator in use.",
    "policy/entropy": "Entropy of the next-token distribution in nats, mean over tokens.",
    "loss/clip_low": "Share of the tokens held back from becoming still rarer.",
    "loss/clip_high": "Share of the tokens held back from becoming still more frequent.",
    "loss/clip_dual": "Share of the tokens with a negative advantage whose cost was bounded.",
    "loss/not_finite": "Tokens whose loss was NaN or infinite, summed over the step's updates.",
    "loss/<name>": "What a loss of your own reports under this name, mean over tokens.",
    "mismatch/kl": "Divergence of the learner from the sampler per token, by k3; 0 is agreement.",
    "mismatch/ratio_min": "Smallest ratio of learner to sampler at a token.",
    "mismatch/ratio_max": "Largest ratio of learner to sampler at a token.",
    "mismatch/effective_sample_size": "Share of the tokens that unequal ratios leave; 1 is all.",
    "mismatch/weight": "Weight by which the loss was corrected, mean over tokens.",
    "mismatch/bound_share": "Share of the tokens whose weight was truncated or masked.",
}
"""Metrics of `diagnose` and `diagnose_advantages`. A word in angle brackets stands for any."""


def diagnose(
    *, old_logprobs_N: Tensor, sampled_logprobs_N: Tensor, metrics: Mapping[str, Tensor]
) -> dict[str, float]:
    """Sum up an update: over all tokens of the step, whatever microbatch they were in.

    Args:
        old_logprobs_N: As the learner computed them before the step.
        sampled_logprobs_N: As the sampler recorded them.
        metrics: Those of the objective, concatenated over microbatches; a loss's own ones too.

    >>> old = torch.tensor([-1.0, -2.0])
    >>> metrics = {"loss/clip_low": torch.tensor([True, False])}
    >>> diagnose(old_logprobs_N=old, sampled_logprobs_N=old, metrics=metrics)
    {'loss/clip_low': 0.5, 'mismatch/kl': 0.0, ... 'mismatch/effective_sample_size': 1.0}
    """
    means = {name: _mean(values_N) for name, values_N in metrics.items()}
    ratio_N = metrics.get("policy/ratio", old_logprobs_N.new_empty(0))
    extremes = _extremes("policy/ratio", ratio_N)
    if NOT_FINITE in metrics:
        means[NOT_FINITE] = float(metrics[NOT_FINITE].sum())
    return {**means, **extremes, **_mismatch(old_logprobs_N, sampled_logprobs_N)}


def diagnose_advantages(x: AdvantageInput, output: AdvantageOutput) -> dict[str, float]:
    """Sum up what the chains of a step were credited with."""
    advantages_N = output.advantages_N.double()
    found = {
        "advantages/mean": _mean(advantages_N),
        "advantages/std": float(advantages_N.std(correction=0)) if len(advantages_N) else 0.0,
        "advantages/unused_groups": _groups_unused(x, output),
        "advantages/not_finite": float(
            (output.used_C[x.chain_N] & ~output.advantages_N.isfinite()).sum()
        ),
    }
    if output.returns_N is not None and x.values_N is not None:
        found["critic/explained_variance"] = _explained(output.returns_N, x.values_N)
    return found


def _mismatch(old_logprobs_N: Tensor, sampled_logprobs_N: Tensor) -> dict[str, float]:
    old_N = old_logprobs_N.detach().double().clamp(min=LOWEST_LOGPROB)
    sampled_N = sampled_logprobs_N.double().clamp(min=LOWEST_LOGPROB)
    weights_N = log_ratio(old_N, sampled_N).exp()
    return {
        "mismatch/kl": _mean(k3(log_ratio(sampled_N, old_N))),
        **_extremes("mismatch/ratio", weights_N),
        "mismatch/effective_sample_size": _effective(weights_N),
    }


def _effective(weights_N: Tensor) -> float:
    if not len(weights_N):
        return 1.0
    return float(weights_N.sum().square() / (len(weights_N) * weights_N.square().sum()))


def _groups_unused(x: AdvantageInput, output: AdvantageOutput) -> float:
    groups, place_C = x.group_C.unique(return_inverse=True)
    used = torch.zeros_like(groups, dtype=torch.bool)
    used[place_C[output.used_C]] = True
    return 1.0 - _mean(used) if len(groups) else 0.0


def _explained(returns_N: Tensor, values_N: Tensor) -> float:
    variance = returns_N.double().var(correction=0)
    if not variance > 0:
        return 0.0
    return float(1 - (returns_N - values_N).double().var(correction=0) / variance)


def _extremes(name: str, values_N: Tensor) -> dict[str, float]:
    if not len(values_N):
        return {}
    return {f"{name}_min": float(values_N.min()), f"{name}_max": float(values_N.max())}


def _mean(values_N: Tensor) -> float:
    return float(values_N.double().mean()) if len(values_N) else 0.0
