"""What a step tells of itself."""

import math

import pytest
import torch
from tests.algorithms.steps import advantage_input, loss_input, random_step, scored, streams

from agentfly.algorithms import (
    ALGORITHMS,
    METRICS,
    AdvantageOutput,
    diagnose,
    diagnose_advantages,
    make_algorithm,
    objective,
)
from agentfly.observe.metrics import require_documented


def test_the_mismatch_by_hand() -> None:
    # The learner finds the tokens 2 and 1/2 times as likely as the sampler did.
    old_N, sampled_N = torch.tensor([0.5, 0.25]).log(), torch.tensor([0.25, 0.5]).log()
    found = diagnose(old_logprobs_N=old_N, sampled_logprobs_N=sampled_N, metrics={})
    assert found["mismatch/ratio_min"] == pytest.approx(0.5)
    assert found["mismatch/ratio_max"] == pytest.approx(2.0)
    # (2 + 1/2)² over 2 · (4 + 1/4)
    assert found["mismatch/effective_sample_size"] == pytest.approx(6.25 / 8.5)
    # w - 1 - log w for each
    k3 = [2 - 1 - math.log(2), 0.5 - 1 + math.log(2)]
    assert found["mismatch/kl"] == pytest.approx(sum(k3) / 2)


def test_an_update_is_summed_up_over_all_tokens() -> None:
    step = random_step(2)
    x = loss_input(step)
    result = objective(make_algorithm("grpo", {"kl": {"coefficient": 0.1}}), x)
    found = diagnose(
        old_logprobs_N=x.old_logprobs_N,
        sampled_logprobs_N=x.sampled_logprobs_N,
        metrics=result.metrics,
    )
    tokens = [token for _, stream in streams(step) for token in stream]
    ratios = [math.exp(t.new - t.old) for t in tokens]
    high = [r > 1.2 and t.advantage > 0 for r, t in zip(ratios, tokens, strict=True)]
    low = [r < 0.8 and t.advantage < 0 for r, t in zip(ratios, tokens, strict=True)]
    assert found["policy/ratio_max"] == pytest.approx(max(ratios))
    assert found["policy/ratio_min"] == pytest.approx(min(ratios))
    assert found["loss/clip_high"] == pytest.approx(sum(high) / len(tokens))
    assert found["loss/clip_low"] == pytest.approx(sum(low) / len(tokens))
    assert any(high)
    assert any(low)
    assert found["policy/entropy"] == pytest.approx(sum(t.entropy for t in tokens) / len(tokens))
    bound = [math.exp(t.old - t.sampled) > 2 for t in tokens]
    assert found["mismatch/bound_share"] == pytest.approx(sum(bound) / len(tokens))


def test_advantages_are_summed_up() -> None:
    x = advantage_input(scored(random_step(2)), values=True)
    used_C = x.group_C != 0
    ones_N = torch.ones(len(x.chain_N), dtype=torch.float64)
    output = AdvantageOutput(advantages_N=ones_N, used_C=used_C, returns_N=x.values_N)
    found = diagnose_advantages(x, output)
    assert found["advantages/mean"] == 1
    assert found["advantages/std"] == 0
    assert found["advantages/unused_groups"] == pytest.approx(1 / len(x.group_C.unique()))
    assert found["critic/explained_variance"] == pytest.approx(1)


def test_a_critic_that_foresees_nothing_explains_nothing() -> None:
    x = advantage_input(scored(random_step(2)), values=True)
    assert x.values_N is not None
    for returns_N in (x.values_N * 0, torch.zeros_like(x.values_N)):
        output = AdvantageOutput(advantages_N=returns_N, used_C=x.group_C >= 0, returns_N=returns_N)
        assert diagnose_advantages(x, output)["critic/explained_variance"] == 0


def test_no_tokens_at_all_are_summed_up_too() -> None:
    nothing = torch.zeros(0)
    found = diagnose(
        old_logprobs_N=nothing, sampled_logprobs_N=nothing, metrics={"loss/a": nothing}
    )
    assert all(map(math.isfinite, found.values()))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_metric_is_explained(name: str) -> None:
    x, given = loss_input(random_step(0)), advantage_input(scored(random_step(0)), values=True)
    algorithm = make_algorithm(name, {"kl": {"coefficient": 0.1}})
    metrics = objective(algorithm, x).metrics
    found = diagnose(
        old_logprobs_N=x.old_logprobs_N, sampled_logprobs_N=x.sampled_logprobs_N, metrics=metrics
    )
    told = diagnose_advantages(given, algorithm.advantage(given))
    require_documented([*found, *told], METRICS)
