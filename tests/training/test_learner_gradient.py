"""The gradient is the mathematics' alone: packing, padding and splitting can't change it."""

import logging
from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.training.learner_cases import (
    MODELS,
    as_sampled_by,
    chain,
    gradient_of,
    group,
    make_groups,
    make_learner,
    make_model,
    make_policy,
    make_settings,
    plain_grpo_gradient,
    relative,
    turn,
)

from agentfly.algorithms import make_algorithm
from agentfly.chat.mask import last_turn_only
from agentfly.models import load_model, resolve_model
from agentfly.training.learner.body import PackedBody
from agentfly.training.learner.learner import LocalLearner
from agentfly.types import Group

EXACT = 1e-5


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("share", [True, False])
def test_it_equals_a_plain_padded_forward_pass(name: str, share: bool) -> None:
    model = make_model(name)
    groups = as_sampled_by(model, make_groups())
    expected = plain_grpo_gradient(model, groups)
    found = gradient_of(make_learner(model, share_prefixes=share), groups)
    assert relative(found, expected) < EXACT


def test_it_equals_a_plain_padded_forward_pass_with_tiny() -> None:
    model = load_model(resolve_model("tiny"), dtype=torch.float32, device="cpu")
    groups = as_sampled_by(model, make_groups(seed=1))
    expected = plain_grpo_gradient(model, groups)
    assert relative(gradient_of(make_learner(model), groups), expected) < EXACT


@pytest.mark.parametrize("train", [{"tokens_per_microbatch": 70}, {"share_prefixes": False}])
def test_it_depends_neither_on_microbatches_nor_on_sharing(train: dict[str, Any]) -> None:
    model = make_model("qwen3")
    groups = as_sampled_by(model, make_groups(seed=2, groups=3))
    whole = gradient_of(make_learner(model), groups)
    split = make_learner(model, **train)
    assert relative(gradient_of(split, groups), whole) < EXACT


def test_microbatches_really_are_several() -> None:
    learner = make_learner(make_model(), tokens_per_microbatch=70)
    shared = make_learner(make_model()).learn(make_groups()).metrics
    split = learner.learn(make_groups()).metrics
    assert split["computed_tokens"] > shared["computed_tokens"]
    assert split["total_tokens"] == shared["total_tokens"] > 2 * shared["computed_tokens"]


def test_it_does_not_depend_on_the_order_of_groups_and_members() -> None:
    model = make_model()
    groups = as_sampled_by(model, make_groups(seed=3))
    turned = [replace(g, members=g.members[::-1]) for g in reversed(groups)]
    first = gradient_of(make_learner(model, tokens_per_microbatch=100), groups)
    second = gradient_of(make_learner(model, tokens_per_microbatch=100), turned)
    assert relative(second, first) < EXACT


def test_it_is_the_same_bit_for_bit_each_time() -> None:
    model = make_model()
    groups = as_sampled_by(model, make_groups())
    first, second = (gradient_of(make_learner(model), groups) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", ["llama", "mistral-window"])
def test_checkpointed_activations_give_the_same_gradient(name: str) -> None:
    model = make_model(name)
    groups = as_sampled_by(model, make_groups())
    plain = gradient_of(make_learner(model), groups)
    policy = make_policy(model, gradient_checkpointing=True)
    learner = LocalLearner(policy, make_algorithm("grpo"), make_settings())
    assert relative(gradient_of(learner, groups), plain) < EXACT


def test_a_sliding_window_is_padded_with_a_word_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        learner = make_learner(make_model("mistral-window"))
    assert "MistralForCausalLM can't be trained on packed rows" in caplog.text
    assert "sliding_window" in caplog.text
    metrics = learner.learn(make_groups()).metrics
    assert metrics["computed_tokens"] == metrics["total_tokens"]


def test_masked_positions_have_a_gradient_of_exactly_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hidden state of a token is reached by the loss only if it predicts a trained one."""
    seen: list[Any] = []
    real = PackedBody.forward

    def watched(self: PackedBody, row: Any) -> torch.Tensor:
        hidden = real(self, row)
        hidden.retain_grad()
        seen.append((row, hidden))
        return hidden

    learner = make_learner(make_model())
    monkeypatch.setattr(PackedBody, "forward", watched)
    groups = make_groups()
    gradient_of(learner, groups, last_turn_only)
    ((row, hidden),) = seen
    streams = [member.streams[0] for g in groups for member in g.members]
    predicting = set()
    for place, stream in zip(row.places, streams, strict=True):
        trained = len(stream.turns[1].completion.token_ids)  # type: ignore[union-attr]
        predicting |= set(place.indices()[-trained - 1 : -1])
    reached = {i for i, gradient in enumerate(hidden.grad) if gradient.any()}
    assert reached == predicting


def test_what_is_recorded_of_masked_tokens_changes_nothing() -> None:
    def groups(of_masked: float) -> list[Group]:
        def member(index: int) -> Any:
            first = turn(0, range(10, 30), (40 + index, 41, 42), logprob=of_masked)
            second = turn(1, (50, 51), (60, 61 + index))
            return chain("g", index, [[first, second]], float(index))

        return [group("g", [member(index) for index in range(4)])]

    learners = [make_learner(make_model()) for _ in range(2)]
    gradients = [
        gradient_of(learner, groups(logprob), last_turn_only)
        for learner, logprob in zip(learners, (-1.0, -1e30), strict=True)
    ]
    assert any(gradient.any() for gradient in gradients[0])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_logits_are_scaled_by_the_sampling_temperature() -> None:
    model = make_model()
    groups = as_sampled_by(model, make_groups(temperature=0.6))
    expected = plain_grpo_gradient(model, groups)
    learner = make_learner(model)
    assert relative(gradient_of(learner, groups), expected) < EXACT
    assert learner.learn(groups).metrics["mismatch/kl"] < 1e-9


def test_bfloat16_is_near_to_float32() -> None:
    model = make_model()
    groups = as_sampled_by(model, make_groups())
    exact = gradient_of(make_learner(model), groups)
    policy = make_policy(model, precision="bfloat16")
    learner = LocalLearner(policy, make_algorithm("grpo"), make_settings())
    found = gradient_of(learner, groups)
    assert 1e-4 < relative(found, exact) < 0.1
    assert {gradient.dtype for gradient in found} == {torch.float32}
