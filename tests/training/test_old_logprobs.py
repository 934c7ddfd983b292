"""At a learning rate of 0 every ratio is exactly 1: old log-probabilities are of the same rows."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
from tests.some_now import some_now
from tests.training.learner_cases import (
    as_sampled_by,
    make_groups,
    make_model,
    make_policy,
    make_settings,
)

from agentfly.algorithms import Algorithm, LossInput, LossOutput, make_algorithm
from agentfly.training.learner.learner import LocalLearner
from agentfly.types import Group, Score


class Ratios:
    """Notes the largest distance of a log-ratio from 0 in all microbatches."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._loss = algorithm.loss
        self.largest: list[float] = []
        self.algorithm = replace(algorithm, loss=self._watched)

    def _watched(self, x: LossInput) -> LossOutput:
        self.largest.append(float((x.logprobs_N.detach() - x.old_logprobs_N).abs().max()))
        return self._loss(x)


def groups_with_a_flat_one(model: Any) -> list[Group]:
    *spread, last = as_sampled_by(model, make_groups(seed=1, groups=5))
    same = tuple(replace(member, score=Score(value=1.0)) for member in last.members)
    return [*spread, replace(last, members=same)]


CASES = list(
    product(
        ["gspo", "ppo", "reinforce++"], [(1, 1), (1, 2), (1, 5), (2, 2)], ["float32", "bfloat16"]
    )
)


@pytest.mark.parametrize(("name", "passes", "precision"), some_now(CASES, every=5))
def test_every_ratio_is_one_at_a_learning_rate_of_zero(
    name: str, passes: tuple[int, int], precision: str
) -> None:
    model, (epochs, minibatches) = make_model(), passes
    groups = groups_with_a_flat_one(model)
    ratios = Ratios(make_algorithm(name))
    settings = make_settings(
        lr=0.0, epochs=epochs, minibatches=minibatches, tokens_per_microbatch=150
    )
    policy = make_policy(model, precision=precision)
    learner = LocalLearner(
        policy, ratios.algorithm, settings, sampler_matches=precision == "float32"
    )
    metrics = learner.learn(groups, version=0).metrics
    assert len(ratios.largest) >= epochs * minibatches
    assert set(ratios.largest) == {0.0}
    assert metrics["policy/ratio_min"] == metrics["policy/ratio_max"] == 1.0
    assert metrics["loss/clip_low"] == metrics["loss/clip_high"] == 0.0


@pytest.mark.parametrize("model_name", ["mistral-window", "gpt2-dropout"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_other_bodies_too(model_name: str, checkpointing: bool) -> None:
    model = make_model(model_name)
    ratios = Ratios(make_algorithm("grpo"))
    policy = make_policy(model, precision="bfloat16", gradient_checkpointing=checkpointing)
    learner = LocalLearner(policy, ratios.algorithm, make_settings(lr=0.0, minibatches=3))
    learner.learn(groups_with_a_flat_one(model))
    assert set(ratios.largest) == {0.0}


@pytest.mark.parametrize("denominator", ["scored", "credited"])
def test_kl_in_the_reward_with_chains_that_are_dropped_afterwards(denominator: str) -> None:
    """KL was measured in rows that held the flat group; the update's rows do not."""
    model = make_model()
    kl = {"coefficient": 0.1, "estimator": "k1", "place": "reward"}
    ratios = Ratios(make_algorithm("grpo", {"kl": kl, "denominator": denominator}))
    policy = make_policy(model, precision="bfloat16")
    learner = LocalLearner(policy, ratios.algorithm, make_settings(lr=0.0, minibatches=2))
    metrics = learner.learn(groups_with_a_flat_one(model)).metrics
    assert metrics["chains_used"] == 16
    assert set(ratios.largest) == {0.0}


def test_epochs_go_over_the_same_rows() -> None:
    seen: list[int] = []
    algorithm = make_algorithm("grpo")

    def watched(x: LossInput) -> LossOutput:
        seen.append(len(x.logprobs_N))
        return algorithm.loss(x)

    policy = make_policy(make_model())
    settings = make_settings(epochs=3, minibatches=4)
    learner = LocalLearner(policy, replace(algorithm, loss=watched), settings)
    learner.learn(make_groups(groups=4))
    epochs = [seen[i : i + 4] for i in (0, 4, 8)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(epochs[2])
    assert not epochs[0] == epochs[1] == epochs[2]


def test_bfloat16_really_differs_between_rows() -> None:
    """Without which the tests above would prove nothing."""
    model = make_model()
    groups = groups_with_a_flat_one(model)
    found = []
    for budget in (100, 400):
        policy = make_policy(model, precision="bfloat16")
        learner = LocalLearner(
            policy, make_algorithm("grpo"), make_settings(tokens_per_microbatch=budget, lr=0.0)
        )
        found.append(learner.learn(groups).metrics["loss"])
    assert not torch.equal(*map(torch.tensor, found))
