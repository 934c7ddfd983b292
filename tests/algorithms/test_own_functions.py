"""`@advantage` and `@loss` on plain functions."""

from dataclasses import replace
from typing import Any

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
from agentfly.errors import CallbackError, ConfigError


def test_one_group_at_a_time() -> None:
    seen = []

    @advantage
    def centered(rewards_G: Tensor) -> Tensor:
        seen.append(len(rewards_G))
        return rewards_G - rewards_G.mean()

    x = advantage_input(scored(random_step(0)))
    got, expected = centered(x), make_algorithm("dr-grpo").advantage(x)
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


def test_a_wrong_shape_is_reported() -> None:
    x = advantage_input(scored(random_step(0)))
    with pytest.raises(ConfigError, match=r"one number for each chain: expected shape"):
        advantage(lambda rewards_G: rewards_G.sum())(x)
    with pytest.raises(ConfigError, match=r"one number for each token.*got float"):
        advantage(lambda rewards_C: 1.0)(x)
    with pytest.raises(
        ConfigError, match=r"one number for each token: expected shape .*got a tensor of shape \(\)"
    ):
        loss(lambda logprobs_N: logprobs_N.sum())(loss_input(random_step(0)))


def test_a_loss_without_a_gradient_is_reported_even_beside_a_penalty() -> None:
    x = loss_input(random_step(0))
    assert x.logprobs_N.requires_grad
    still = replace(
        make_algorithm("grpo", {"kl": {"coefficient": 0.1}}),
        loss=loss(lambda logprobs_N: logprobs_N.detach()),
    )
    with pytest.raises(ConfigError, match="the loss of grpo carries no gradient"):
        objective(still, x)


@pytest.mark.parametrize(
    ("own", "unknown"),
    [
        ({"advantage": advantage(lambda values_N: values_N)}, "values_N"),
        ({"advantage": advantage(lambda kl_N: kl_N)}, "kl_N"),
        ({"loss": loss(lambda reference_logprobs_N: reference_logprobs_N)}, "reference_logprobs_N"),
    ],
)
def test_what_nobody_computes_can_not_be_asked_for(own: dict[str, Any], unknown: str) -> None:
    found = [*replace(make_algorithm("reinforce"), **own).problems(num_chains=2)]
    assert [problem.key for problem in found] == ["algorithm.name"]
    assert f"asks for {unknown}, which is unknown here" in found[0].text


def test_what_is_computed_or_has_a_default_can_be_asked_for() -> None:
    first = advantage(lambda values_N: values_N)
    assert not [*replace(make_algorithm("ppo"), advantage=first).problems(num_chains=2)]
    second = loss(lambda logprobs_N, reference_logprobs_N=None: logprobs_N)
    assert not [*replace(make_algorithm("reinforce"), loss=second).problems(num_chains=2)]
    third = loss(lambda reference_logprobs_N: reference_logprobs_N)
    held = make_algorithm("grpo", {"kl": {"coefficient": 0.1}})
    assert not [*replace(held, loss=third).problems(num_chains=2)]


@advantage
def careless(rewards_G: Tensor) -> Tensor:
    return rewards_G / dict[str, float]()["spread"]


@advantage
def careless_of_a_step(rewards_C: Tensor) -> Tensor:
    raise ValueError(f"{len(rewards_C)} chains")


@loss
def wild(logprobs_N: Tensor) -> Tensor:
    return logprobs_N[torch.ones(9000)]


@pytest.mark.parametrize(
    ("call", "said", "cause"),
    [
        (careless, "the advantage {here}:careless raised KeyError: 'spread'", KeyError),
        (careless_of_a_step, "{here}:careless_of_a_step raised ValueError: ", ValueError),
        (wild, "the loss {here}:wild raised IndexError: tensors used as ind", IndexError),
    ],
)
def test_what_a_function_of_ones_own_raises_is_reported_with_its_name_and_line(
    call: Any, said: str, cause: type[Exception]
) -> None:
    step = scored(random_step(0))
    x = loss_input(step) if call is wild else advantage_input(step)
    with pytest.raises(CallbackError) as caught:
        call(x)
    told = str(caught.value)
    line = call.function.__code__.co_firstlineno + 2
    assert said.format(here=__name__) in told
    assert told.endswith(f"({__file__}, line {line})")
    assert isinstance(caught.value.__cause__, cause)
