"""What a step learns from, what it leaves out, and what it tells."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.training.learner_cases import (
    as_sampled_by,
    chain,
    gradient_of,
    group,
    kept_gradients,
    make_groups,
    make_learner,
    make_model,
    make_policy,
    make_settings,
    relative,
    same,
    turn,
    weights_of,
)

from agentfly.algorithms import (
    AdvantageInput,
    AdvantageOutput,
    Algorithm,
    Kl,
    LossInput,
    LossOutput,
    make_algorithm,
)
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.step_metrics import METRICS
from agentfly.types import Score, StopReason


class Watching:
    """An algorithm that notes what it is given."""

    def __init__(self, *, infinite: bool = False) -> None:
        self.advantages: list[AdvantageInput] = []
        self.losses: list[LossInput] = []
        self.infinite = infinite

    def algorithm(self, **more: Any) -> Algorithm:
        return Algorithm(name="watching", advantage=self._advantage, loss=self._loss, **more)

    def _advantage(self, x: AdvantageInput) -> AdvantageOutput:
        self.advantages.append(x)
        advantages_N = x.rewards_C[x.chain_N] + torch.arange(len(x.chain_N)) / 1000
        if self.infinite:
            advantages_N[0] = torch.inf
        return AdvantageOutput(
            advantages_N=advantages_N, used_C=torch.ones(len(x.rewards_C), dtype=torch.bool)
        )

    def _loss(self, x: LossInput) -> LossOutput:
        self.losses.append(x)
        return LossOutput(loss_N=-x.advantages_N * x.logprobs_N)


def test_a_chain_cut_into_two_samples_counts_as_one() -> None:
    cut = chain(
        "g",
        0,
        [[turn(0, range(10, 15), (20, 21))], [turn(1, range(10, 14), (22, 23, 24))]],
        reward=1.0,
    )
    whole = chain("g", 1, [[turn(0, range(10, 15), (30,))]], reward=0.0)
    watching = Watching()
    learner = make_learner(make_model(), watching.algorithm())
    learned = learner.learn([group("g", [cut, whole])])
    (credited,) = watching.advantages
    assert credited.rewards_C.tolist() == [1.0, 0.0]
    assert credited.chain_N.tolist() == [0] * 5 + [1]
    (x,) = watching.losses
    assert (x.num_chains, x.num_tokens) == (2.0, 6.0)
    tokens = dict(zip(x.advantages_N.tolist(), x.chain_tokens_N.tolist(), strict=True))
    assert sorted(tokens.values()) == [1, 5, 5, 5, 5, 5]
    # What is recorded for people: the reward, and thousandths in the order of the tokens.
    recorded = [stream for one in learned.credit for stream in one.streams]
    assert [one.chain_id for one in learned.credit] == [cut.chain_id, whole.chain_id]
    advantages = [round(value, 3) for stream in recorded for value in stream.advantages]
    assert advantages == [1.0, 1.001, 1.002, 1.003, 1.004, 0.005]
    masks = [(False,) * 5 + (True,) * 2, (False,) * 4 + (True,) * 3, (False,) * 5 + (True,)]
    assert [stream.mask for stream in recorded] == masks
    entropies = [value for stream in recorded for value in stream.entropies or ()]
    assert sum(entropies) / 6 == pytest.approx(learned.metrics["policy/entropy"], rel=1e-5)
    assert len(x.sample_N.unique()) == 3


def test_tokens_are_credited_in_order_of_time_and_given_back_to_their_sample() -> None:
    """The second sample of the chain holds its turns 0 and 2, the first one turn 1."""
    streams = [
        [turn(1, range(10, 14), (21, 22))],
        [turn(0, range(10, 15), (20,)), turn(2, (9,), (23, 24))],
    ]
    member = chain("g", 0, streams, reward=0.0)
    model = make_model()
    (recorded,) = as_sampled_by(model, [group("g", [member])])
    watching = Watching()
    make_learner(model, watching.algorithm()).learn([recorded])
    (credited,), (x,) = watching.advantages, watching.losses
    assert credited.turn_N.tolist() == [0, 1, 1, 2, 2]
    # The watching algorithm numbers tokens by time; sorted by it, they are in order of turns.
    by_time = x.sampled_logprobs_N[x.advantages_N.argsort()]
    turns = recorded.members[0].turns
    expected = [logprob for one in turns for logprob in one.completion.logprobs]  # type: ignore[union-attr]
    torch.testing.assert_close(by_time, torch.tensor(expected))
    torch.testing.assert_close(x.logprobs_N, x.sampled_logprobs_N)


def test_rewards_of_turns_and_equal_states_reach_the_algorithm() -> None:
    def member(index: int, **more: Any) -> Any:
        first = turn(0, range(10, 15), (20, 21), reward=0.25, state_key="start")
        second = turn(1, (9,), (22,), state_key=f"later {index}")
        return chain("g", index, [[first, second]], 1.0, **more)

    per_turn = Score(value=1.0, per_turn=(0.5, 0.125))
    watching = Watching()
    members = [member(0), member(1, score=per_turn)]
    make_learner(make_model(), watching.algorithm()).learn([group("g", members)])
    (credited,) = watching.advantages
    # Only what is part of a score's value counts; a step's own reward need not be.
    assert credited.rewards_U.tolist() == [0.0, 0.0, 0.5, 0.125]
    assert credited.chain_U.tolist() == [0, 0, 1, 1]
    start, later, again, other = credited.state_U.tolist()
    assert start == again
    assert len({start, later, other}) == 3


def test_chains_that_cannot_be_learned_from_are_counted_by_reason() -> None:
    good = make_groups(groups=1)[0]
    first = good.members[0]
    unscored = replace(first, chain_id="u", score=None)
    crashed = replace(
        first, chain_id="e", score=None, stop=StopReason.ENV_CRASHED, error="EnvError: boom"
    )
    mixed = replace(good, members=(unscored, *good.members, crashed))
    model = make_model()
    metrics = make_learner(model).learn([mixed]).metrics
    assert metrics["left_out/unscored"] == metrics["left_out/env_crashed"] == 1
    assert metrics["chains"] == metrics["chains_used"] == 4
    with_failures = gradient_of(make_learner(make_model()), [mixed])
    assert relative(with_failures, gradient_of(make_learner(make_model()), [good])) < 1e-6


@pytest.mark.parametrize("groups", [[], None])
def test_nothing_to_learn_from_changes_nothing(groups: Any) -> None:
    flat = [
        replace(g, members=tuple(replace(m, score=Score(value=1.0)) for m in g.members))
        for g in make_groups()
    ]
    model = make_model()
    before = weights_of(model)
    learner = make_learner(model)
    learned = learner.learn(flat if groups is None else groups)
    assert learned.updates == 0
    assert same(weights_of(model), before)
    assert learner.step == 1


def test_a_gradient_that_is_not_finite_leaves_the_weights_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = make_model()
    before = weights_of(model)
    watching = Watching(infinite=True)
    learner = make_learner(model, watching.algorithm())
    learned = learner.learn(make_groups())
    assert (learned.updates, learned.metrics["skipped_updates"]) == (0, 1)
    assert "an update is left out" in caplog.text
    assert same(weights_of(model), before)
    watching.infinite = False
    assert learner.learn(make_groups()).updates == 1
    assert not same(weights_of(model), before)
    assert all(weight.isfinite().all() for weight in weights_of(model))


def test_epochs_and_minibatches_are_updates_over_whole_groups() -> None:
    watching = Watching()
    learner = make_learner(make_model(), watching.algorithm(), epochs=2, minibatches=2)
    learned = learner.learn(make_groups(groups=4, chains=2))
    assert learned.updates == 4
    assert [x.num_chains for x in watching.losses] == [4.0] * 4
    assert sum(x.num_tokens for x in watching.losses) == 2 * learned.metrics["trained_tokens"]


def test_old_logprobs_stay_those_from_before_the_step() -> None:
    watching = Watching()
    learner = make_learner(make_model(), watching.algorithm(), epochs=3, lr=1e-2)
    learner.learn(make_groups())
    first, second, third = watching.losses
    torch.testing.assert_close(first.old_logprobs_N, first.logprobs_N.detach())
    assert torch.equal(second.old_logprobs_N, first.old_logprobs_N)
    assert torch.equal(third.old_logprobs_N, first.old_logprobs_N)
    assert (third.logprobs_N - third.old_logprobs_N).abs().max() > 0.01


@pytest.mark.parametrize(
    ("matches", "version", "served"),
    [(True, 0, True), (True, 1, False), (False, 0, False), (True, None, False)],
)
def test_the_sampler_s_own_serve_for_kl_in_the_reward_only_where_they_are_the_same(
    matches: bool, version: int | None, served: bool
) -> None:
    watching = Watching()
    kl = Kl(coefficient=1.0, estimator="k1", place="reward")
    policy, settings = make_policy(make_model()), make_settings(epochs=2)
    learner = LocalLearner(policy, watching.algorithm(kl=kl), settings, sampler_matches=matches)
    learner.learn(make_groups(), version=version)
    x, credited = watching.losses[0], watching.advantages[0]
    assert credited.kl_N is not None
    assert x.reference_logprobs_N is not None
    # The policy is its own reference still, and what the helper recorded is -1 everywhere.
    recorded = (x.sampled_logprobs_N - x.reference_logprobs_N).sum()
    expected = float(recorded) if served else 0.0
    assert float(credited.kl_N.sum()) == pytest.approx(expected, abs=1e-3)
    assert torch.equal(x.old_logprobs_N, x.logprobs_N.detach())


@pytest.mark.parametrize(("place", "estimator"), [("loss", "k3"), ("reward", "k1")])
@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_the_reference_is_the_policy_as_it_was(place: str, estimator: str, lora: Any) -> None:
    watching = Watching()
    kl = {"coefficient": 0.1, "estimator": estimator, "place": place}
    algorithm = replace(
        make_algorithm("grpo", {"kl": kl}),
        advantage=watching._advantage,
        loss=watching._loss,
    )
    model = make_model()
    groups = as_sampled_by(model, make_groups())
    policy = make_policy(model, lora=lora)
    learner = LocalLearner(policy, algorithm, make_settings(lr=1e-2))
    learner.learn(groups)
    learner.learn(groups)
    start, later = watching.losses
    assert later.reference_logprobs_N is not None
    torch.testing.assert_close(later.reference_logprobs_N, later.sampled_logprobs_N)
    assert (later.logprobs_N - start.logprobs_N).abs().max() > 0.01
    credited = watching.advantages[-1]
    if place == "reward":
        assert credited.kl_N is not None
        expected = 0.1 * (later.old_logprobs_N - later.reference_logprobs_N)
        torch.testing.assert_close(credited.kl_N.sum(), expected.sum())
    else:
        assert credited.kl_N is None


def test_an_overlong_chain_loses_reward_before_it_is_compared() -> None:
    algorithm = make_algorithm(
        "dapo", {"overlong": {"max_tokens": 4, "soft_tokens": 2, "penalty": 1.0}}
    )
    short = chain("g", 0, [[turn(0, range(10, 15), (20, 21))]], 1.0)
    long = chain("g", 1, [[turn(0, range(10, 15), (20, 21, 22, 23))]], 1.0)
    metrics = make_learner(make_model(), algorithm).learn([group("g", [short, long])]).metrics
    assert metrics["reward_mean"] == 0.5
    assert metrics["chains_used"] == 2


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_the_critic_learns_returns(lora: Any) -> None:
    policy = make_policy(make_model(), lora=lora)
    learner = LocalLearner(policy, make_algorithm("ppo"), make_settings(lr=3e-3))
    groups = make_groups()
    losses = [learner.learn(groups).metrics["critic/loss"] for _ in range(8)]
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("lora", [None, {"rank": 4}])
def test_what_is_rewarded_becomes_likelier(lora: Any) -> None:
    policy = make_policy(make_model(), lora=lora)
    watching = Watching()
    learner = LocalLearner(policy, watching.algorithm(), make_settings(lr=1e-2))
    for _ in range(5):
        learner.learn(make_groups())
    first, last = watching.losses[0], watching.losses[-1]
    gained = (last.logprobs_N - first.logprobs_N).detach()
    assert (gained * first.advantages_N).mean() > 0.5


def test_every_metric_is_documented() -> None:
    policy = make_policy(make_model())
    learner = LocalLearner(policy, make_algorithm("ppo", {"kl": {}}), make_settings())
    failed = replace(make_groups()[0].members[0], chain_id="x", score=None)
    metrics = learner.learn(
        [*make_groups(), group("g0x", [replace(failed, group_id="g0x")])]
    ).metrics
    known = {name.replace("<reason>", "unscored") for name in METRICS}
    assert set(metrics) <= known


def test_the_order_of_minibatches_depends_on_seed_and_step_alone() -> None:
    def gradients(steps_before: int) -> list[list[torch.Tensor]]:
        learner = make_learner(make_model(), minibatches=3, lr=0.0)
        learner.step = steps_before
        with kept_gradients() as kept:
            learner.learn(make_groups(groups=3))
        return kept

    first, again, other = gradients(0), gradients(0), gradients(5)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not same(first[2], other[2])


def test_the_critic_has_a_rate_and_a_warm_up_of_its_own() -> None:
    own = {"lr": 1e-3, "critic_lr": 4e-3, "critic_warmup_steps": 2}
    learner = make_learner(make_model(), make_algorithm("ppo"), **own)
    rates = []
    for step in range(3):
        metrics = learner.learn(make_groups(seed=step)).metrics
        assert learner._critic is not None
        rates.append((metrics["lr"], learner._critic.optimizer._adam.param_groups[0]["lr"]))
    assert rates == [(1e-3, 2e-3), (1e-3, 4e-3), (1e-3, 4e-3)]
