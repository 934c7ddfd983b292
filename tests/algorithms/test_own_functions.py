"""`@advantage` and `@loss` on plain functions."""

from dataclasses import replace

import pytest
import torch
from tests.algorithms.steps import advantage_input, loss_input, random_step, scored
from torch import Tensor

from agentfly.algorithms import (
    AdvantageOutput,
    LossOutput,
    Objective,
    advantage,
    loss,
    make_algorithm,
    objective,
)
from agentfly.errors import ConfigError


def test_one_group_at_a_time() -> None:
    seen = []

    @advantage
    def centred(rewards_G: Tensor) -> Tensor:
        seen.append(len(rewards_G))
        return rewards_G - rewards_G.mean()

    x = advantage_input(scored(random_step(0)))
    got, expected = centred(x), make_algorithm("dr-grpo").advantage(x)
    torch.testing.assert_close(got.advantages_N, expected.advantages_N)
    assert got.used_C.tolist() == expected.used_C.tolist()
    assert seen
    assert min(seen) >= 2


def test_a_whole_step_by_the_names_of_the_fields() -> None:
    @advantage
    def credit(rewards_C: Tensor, chain_N: Tensor, scale: float = 2.0) -> Tensor:
        return scale * rewards_C[chain_N]

    x = advantage_input(scored(random_step(0)))
    assert torch.equal(credit(x).advantages_N, 2 * x.rewards_C[x.chain_N])
    assert credit(x).used_C.all()
    assert not credit.needs_group


def test_outputs_are_taken_as_they_are() -> None:
    x = advantage_input(scored(random_step(0)))
    told = AdvantageOutput(advantages_N=x.rewards_C[x.chain_N], used_C=x.group_C == 0)
    assert advantage(lambda rewards_C: told)(x) is told
    spoken = LossOutput(loss_N=torch.zeros(3))
    assert loss(lambda logprobs_N: spoken)(loss_input(random_step(0))) is spoken


def test_what_a_loss_reports_is_logged_under_its_name() -> None:
    @loss
    def plain(logprobs_N: Tensor, advantages_N: Tensor) -> LossOutput:
        return LossOutput(loss_N=-logprobs_N * advantages_N, metrics={"surprise": -logprobs_N})

    x = loss_input(random_step(0))
    grpo = make_algorithm("reinforce", {"correction": {"level": "none"}})
    expected: Objective = objective(grpo, x)
    result = objective(replace(grpo, loss=plain), x)
    assert result.loss == expected.loss
    assert torch.equal(result.metrics["loss/surprise"], -x.logprobs_N.detach())
    assert not result.metrics["loss/surprise"].requires_grad


def test_an_unknown_parameter_is_refused_when_it_is_decorated() -> None:
    with pytest.raises(
        ConfigError, match=r"'reward_C', which stands for nothing\. Did you mean 'rewards_C'"
    ):

        @advantage
        def wrong(reward_C: Tensor) -> Tensor:
            return reward_C

    with pytest.raises(ConfigError, match="Did you mean 'logprobs_N'"):

        @loss
        def wrong_loss(logprob_N: Tensor) -> Tensor:
            return logprob_N


def test_one_group_and_the_whole_step_do_not_mix() -> None:
    with pytest.raises(ConfigError, match="asks for one group's rewards_G, and for values_N"):
        advantage(lambda rewards_G, values_N: rewards_G)


def test_a_wrong_shape_is_told() -> None:
    x = advantage_input(scored(random_step(0)))
    with pytest.raises(ConfigError, match=r"one number for each chain: expected shape"):
        advantage(lambda rewards_G: rewards_G.sum())(x)
    with pytest.raises(ConfigError, match=r"one number for each token.*got float"):
        advantage(lambda rewards_C: 1.0)(x)
    with pytest.raises(
        ConfigError, match=r"one number for each token: expected shape .*got a tensor of shape \(\)"
    ):
        loss(lambda logprobs_N: logprobs_N.sum())(loss_input(random_step(0)))
