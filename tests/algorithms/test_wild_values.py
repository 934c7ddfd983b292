"""Absurd numbers neither spread nor hide."""

import math
from dataclasses import replace

import pytest
import torch
from tests.algorithms.steps import advantage_input, loss_input, random_step, scored

from agentfly.algorithms import ALGORITHMS, LossInput, diagnose, make_algorithm, objective

WILD = [-1e30, -math.inf, -1e4, 0.0, 5.0]
OPTIONS = {"kl": {"coefficient": 0.1, "estimator": "k3", "place": "loss"}}


def gradient(name: str, x: LossInput) -> torch.Tensor:
    leaf = x.logprobs_N.detach().clone().requires_grad_()
    objective(make_algorithm(name, OPTIONS), replace(x, logprobs_N=leaf)).loss.backward()
    assert leaf.grad is not None
    return leaf.grad


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize(
    "field", ["logprobs_N", "old_logprobs_N", "sampled_logprobs_N", "reference_logprobs_N"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_absurd_log_probability_gives_a_finite_gradient(
    name: str, field: str, dtype: torch.dtype
) -> None:
    x = in_dtype(loss_input(random_step(0)), dtype)
    for value in WILD:
        wild_N = getattr(x, field).detach().clone()
        wild_N[::3] = value
        changed = replace(x, **{field: wild_N})
        assert gradient(name, changed).isfinite().all()
        assert objective(make_algorithm(name, OPTIONS), changed).loss.isfinite()


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"gspo"}))
def test_a_token_without_advantage_has_no_gradient_and_changes_nothing(name: str) -> None:
    x = loss_input(random_step(3))
    quiet_N = x.advantages_N == 0
    assert quiet_N.any()
    plain = make_algorithm(name, {"kl": {"coefficient": 0}})
    calm = objective(plain, x).loss
    for value in WILD:
        leaf = x.logprobs_N.detach().where(~quiet_N, value).requires_grad_()
        sampled_N = x.sampled_logprobs_N.where(~quiet_N, value)
        result = objective(plain, replace(x, logprobs_N=leaf, sampled_logprobs_N=sampled_N))
        result.loss.backward()
        assert leaf.grad is not None
        assert (leaf.grad[quiet_N] == 0).all()
        assert result.loss == calm


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"ppo", "reinforce", "reinforce++"}))
def test_an_unused_group_changes_no_other_chains_advantage(name: str) -> None:
    step = scored(random_step(0))
    advantage = make_algorithm(name, {"denominator": "credited"}).advantage
    before = advantage(advantage_input(step))
    unused = [c for c, on in enumerate(before.used_C.tolist()) if not on]
    assert unused, "the step must hold an unused group"
    without = [chain for c, chain in enumerate(step) if c not in unused]
    after = advantage(advantage_input(without))
    kept_N = before.used_C[advantage_input(step).chain_N]
    torch.testing.assert_close(before.advantages_N[kept_N], after.advantages_N)
    assert (before.advantages_N[~kept_N] == 0).all()


def test_a_nan_is_not_hidden() -> None:
    x = loss_input(random_step(0))
    broken_N = x.logprobs_N.detach().clone()
    broken_N[0] = math.nan
    assert objective(make_algorithm("grpo"), replace(x, logprobs_N=broken_N)).loss.isnan()


def test_diagnosis_of_absurd_numbers_is_finite() -> None:
    old_N, sampled_N = torch.tensor([-1e30, -1.0, -math.inf]), torch.tensor([-1.0, -1e30, -1.0])
    found = diagnose(old_logprobs_N=old_N, sampled_logprobs_N=sampled_N, metrics={})
    assert all(map(math.isfinite, found.values()))


def in_dtype(x: LossInput, dtype: torch.dtype) -> LossInput:
    assert x.reference_logprobs_N is not None
    return replace(
        x,
        logprobs_N=x.logprobs_N.detach().to(dtype),
        old_logprobs_N=x.old_logprobs_N.to(dtype),
        sampled_logprobs_N=x.sampled_logprobs_N.to(dtype),
        reference_logprobs_N=x.reference_logprobs_N.to(dtype),
        advantages_N=x.advantages_N.to(dtype),
        chain_tokens_N=x.chain_tokens_N.to(dtype),
    )
