"""Supervised learning goes through the same packing and masks."""

import math
from typing import Any

import pytest
import torch
from tests.training.learner_cases import (
    make_groups,
    make_model,
    make_policy,
    plain_logprobs,
    same,
    weights_of,
)

from agentfly.config import TrainSettings
from agentfly.training.learner.trainable_chains import make_samples
from agentfly.training.supervised.supervised_learner import SupervisedLearner
from agentfly.types import Sample

MEMBERS = [member for group in make_groups() for member in group.members]
SAMPLES: list[Sample] = [sample for member in MEMBERS for sample in make_samples(member)]


def learner(model: Any, **train: Any) -> SupervisedLearner:
    return SupervisedLearner(make_policy(model), TrainSettings(lr=1e-2, **train))


@pytest.mark.parametrize("train", [{}, {"tokens_per_microbatch": 80}, {"share_prefixes": False}])
def test_the_loss_is_the_plain_likelihood(train: dict[str, Any]) -> None:
    model = make_model()
    logprobs = torch.cat([plain_logprobs(model, member.streams[0]) for member in MEMBERS])
    expected = pytest.approx(-logprobs.mean().item(), rel=1e-5)
    trained = learner(model, **train)
    assert trained.evaluate(SAMPLES).loss == expected
    assert trained.learn(SAMPLES).metrics["loss"] == expected


@pytest.mark.parametrize("train", [{}, {"tokens_per_microbatch": 80}, {"share_prefixes": False}])
def test_exact_turns_are_the_products_of_their_tokens(train: dict[str, Any]) -> None:
    model = make_model()
    expected: dict[int, list[float]] = {}
    for member in MEMBERS:
        stream = member.streams[0]
        logprobs = iter(plain_logprobs(model, stream).tolist())
        for turn in stream.turns:
            assert turn.completion is not None
            sampled = sum(next(logprobs) for _ in turn.completion.token_ids)
            expected.setdefault(turn.index, []).append(math.exp(sampled))
    measured = learner(model, **train).evaluate(SAMPLES).exact_turns
    assert len(measured) == len(expected) > 1
    for ours, theirs in zip(measured, expected.values(), strict=True):
        assert sorted(ours) == pytest.approx(sorted(theirs), rel=1e-4)


def test_it_learns_what_it_is_shown() -> None:
    trained = learner(make_model())
    before = trained.evaluate(SAMPLES).loss
    for _ in range(10):
        trained.learn(SAMPLES)
    assert trained.evaluate(SAMPLES).loss < before / 2


def test_it_continues_bit_for_bit() -> None:
    model, copy = make_model(), make_model()
    whole, first = learner(model), learner(copy)
    for _ in range(2):
        whole.learn(SAMPLES)
    first.learn(SAMPLES)
    second = learner(copy)
    second.load_state_dict(first.state_dict())
    second.learn(SAMPLES)
    assert same(weights_of(model), weights_of(copy))
