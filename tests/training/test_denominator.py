"""What an update's loss is divided by: all scored chains that it was dealt, or the credited ones.

The expected gradients are worked out by loops over chains, each through the module's own forward
pass, and denominators that are counted by hand.
"""

from collections.abc import Sequence
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
    plain_logprobs,
    relative,
    same,
    turn,
    weights_of,
)
from torch import Tensor

from agentfly.algorithms import AdvantageInput, AdvantageOutput, Algorithm, Critic, make_algorithm
from agentfly.algorithms.losses import policy_gradient
from agentfly.types import Group, Score, StopReason, Trajectory, Turn

EXACT = 1e-5
FLAT_GROUPS = 7


def flat(one: Group) -> Group:
    return replace(one, members=tuple(replace(m, score=Score(value=1.0)) for m in one.members))


def one_in_eight(model: Any) -> list[Group]:
    """One group whose rewards differ, and seven in which all succeed."""
    first, *others = as_sampled_by(model, make_groups(groups=1 + FLAT_GROUPS, chains=3))
    return [first, *map(flat, others)]


def sampled_tokens(member: Trajectory) -> int:
    return sum(len(one.completion.token_ids) for one in member.turns if one.completion)


def centered(one: Group) -> list[float]:
    rewards = [member.reward or 0.0 for member in one.members]
    return [reward - sum(rewards) / len(rewards) for reward in rewards]


def standardized(one: Group) -> list[float]:
    off = centered(one)
    variance = sum(x * x for x in off) / (len(off) - 1)
    return [x / (variance**0.5 + 1e-4) for x in off]


def chain_sums(model: Any, members: Sequence[Trajectory]) -> list[Tensor]:
    return [
        torch.stack([plain_logprobs(model, stream).sum() for stream in member.streams]).sum()
        for member in members
    ]


def differentiate(model: Any, loss: Tensor) -> list[Tensor]:
    model.requires_grad_(True)
    return list(torch.autograd.grad(loss, list(model.parameters())))


def expected(model: Any, groups: list[Group], name: str, *, credited: bool) -> list[Tensor]:
    """The first group's gradient by hand; the others only count."""
    spread = groups[0]
    counted = [m for one in (groups[:1] if credited else groups) for m in one.members]
    tokens = sum(map(sampled_tokens, counted))
    sums = chain_sums(model, spread.members)
    lengths = list(map(sampled_tokens, spread.members))
    total = torch.zeros(())
    credit = centered(spread) if name == "dr-grpo" else standardized(spread)
    for advantage, chain_sum, length in zip(credit, sums, lengths, strict=True):
        divided_by = {
            "grpo": tokens,
            "gspo": length * len(counted),
            "dr-grpo": 512 * len(counted),
        }[name]
        total = total - advantage * chain_sum / divided_by
    return differentiate(model, total)


@pytest.mark.parametrize("name", ["grpo", "gspo", "dr-grpo"])
@pytest.mark.parametrize("denominator", ["scored", "credited"])
def test_flat_groups_count_and_are_not_computed(name: str, denominator: str) -> None:
    model = make_model()
    groups = one_in_eight(model)
    algorithm = make_algorithm(name, {"denominator": denominator})
    found = gradient_of(make_learner(model, algorithm), groups)
    by_hand = expected(model, groups, name, credited=denominator == "credited")
    assert relative(found, by_hand) < EXACT
    metrics = make_learner(model, algorithm).learn(groups).metrics
    assert (metrics["chains"], metrics["chains_used"]) == (24, 3)
    assert metrics["trained_tokens"] == sum(map(sampled_tokens, groups[0].members))


def test_dr_grpo_s_constant_is_constant() -> None:
    """Seven flat groups of the same size make the gradient an eighth, whatever their lengths."""
    model = make_model()
    groups = one_in_eight(model)
    alone, beside = (
        gradient_of(make_learner(model, make_algorithm("dr-grpo")), dealt)
        for dealt in (groups[:1], groups)
    )
    assert relative(beside, [gradient / 8 for gradient in alone]) < EXACT


def test_failures_of_infrastructure_do_not_count() -> None:
    model = make_model()
    groups = one_in_eight(model)
    crashed = tuple(
        replace(m, score=None, stop=StopReason.ENV_CRASHED, error="EnvError: boom")
        for m in groups[1].members
    )
    failed = [groups[0], replace(groups[1], members=crashed), *groups[2:]]
    without = [groups[0], *groups[2:]]
    found, wanted = (gradient_of(make_learner(model), dealt) for dealt in (failed, without))
    assert relative(found, wanted) < 1e-6


def test_a_chain_without_siblings_counts_and_gives_nothing() -> None:
    model = make_model()
    spread, other = as_sampled_by(model, make_groups(groups=2))
    lonely = replace(other, members=other.members[:1])
    counted = [*spread.members, *lonely.members]
    tokens = sum(map(sampled_tokens, counted))
    pairs = zip(standardized(spread), chain_sums(model, spread.members), strict=True)
    total = torch.stack([-advantage * chain_sum / tokens for advantage, chain_sum in pairs]).sum()
    found = gradient_of(make_learner(model), [spread, lonely])
    assert relative(found, differentiate(model, total)) < EXACT


def test_a_chain_whose_tokens_are_all_masked_counts_as_a_chain_of_no_tokens() -> None:
    def last_of_short(turns: Sequence[Turn]) -> list[Sequence[bool]]:
        """Train the last turn alone, unless it is the long one."""
        sampled = [one.completion.token_ids for one in turns if one.completion]
        return [(False,) * len(sampled[0]), (len(sampled[1]) < 3,) * len(sampled[1])]

    def member(index: int, last: tuple[int, ...], reward: float) -> Trajectory:
        first = turn(0, range(10, 30), (40 + index, 41))
        return chain("g", index, [[first, turn(1, (50, 51), last)]], reward)

    model = make_model()
    members = [member(0, (60, 61), 1.0), member(1, (62,), 0.0), member(2, (63, 64, 65), 0.25)]
    (one,) = as_sampled_by(model, [group("g", members)])
    algorithm = make_algorithm("grpo", {"aggregation": "sequence_mean_of_means"})
    found = gradient_of(make_learner(model, algorithm), [one], last_of_short)
    total = torch.zeros(())
    for advantage, kept, trained in zip(standardized(one), one.members, (2, 1, 0), strict=True):
        if trained:
            last = plain_logprobs(model, kept.streams[0])[-trained:]
            total = total - advantage * last.sum() / (trained * 3)
    assert relative(found, differentiate(model, total)) < EXACT


@pytest.mark.parametrize(
    "options", [{"kl": {"coefficient": 0.5}}, {"entropy_coefficient": 0.5}], ids=["kl", "entropy"]
)
def test_kl_and_entropy_act_on_chains_without_credit(options: dict[str, Any]) -> None:
    """A model that has moved from its reference is pulled back by flat groups too."""

    def gradient(denominator: str) -> tuple[list[Tensor], float]:
        model = make_model()
        groups = one_in_eight(model)
        algorithm = make_algorithm("grpo", {**options, "denominator": denominator})
        learner = make_learner(model, algorithm)
        move(model)
        with kept_gradients() as kept:
            metrics = learner.learn(groups).metrics
        return kept[0], metrics["chains_used"]

    everywhere, used = gradient("scored")
    assert used == 24
    model = make_model()
    groups = one_in_eight(model)
    reference = [chain_logprobs(model, m).detach() for one in groups for m in one.members]
    move(model)
    wanted = differentiate(model, by_hand(model, groups, reference, options))
    assert relative(everywhere, wanted) < 1e-4
    only_credited, used = gradient("credited")
    assert used == 3
    assert relative(only_credited, wanted) > 0.1


def move(model: Any) -> None:
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.02 * torch.randn(parameter.shape, generator=generator)


def chain_logprobs(model: Any, member: Trajectory) -> Tensor:
    return torch.cat([plain_logprobs(model, stream) for stream in member.streams])


def by_hand(
    model: Any, groups: list[Group], reference: list[Tensor], options: dict[str, Any]
) -> Tensor:
    """The loss of GRPO with its KL or entropy term, over the tokens of all chains."""
    members = [m for one in groups for m in one.members]
    credit = [*standardized(groups[0]), *[0.0] * (len(members) - len(groups[0].members))]
    total, tokens = torch.zeros(()), sum(map(sampled_tokens, members))
    for member, advantage, before in zip(members, credit, reference, strict=True):
        logprobs = chain_logprobs(model, member)
        weights = (logprobs.detach() - before).exp().clamp(max=2.0)
        total = total - (weights * advantage * logprobs).sum()
        if "kl" in options:
            off = before - logprobs
            total = total + 0.5 * (off.exp() - off - 1).sum()
        else:
            total = total - 0.5 * chain_entropy(model, member).sum()
    return total / tokens


def chain_entropy(model: Any, member: Trajectory) -> Tensor:
    (stream,) = member.streams
    table = model(input_ids=torch.tensor([stream.token_ids])).logits[0].log_softmax(-1)
    entropy = -(table.exp() * table).sum(-1)[:-1]
    kept: Tensor = entropy[torch.tensor(stream.sampled[1:])]
    return kept


def test_a_loss_that_ignores_advantages_still_leaves_chains_without_credit_alone() -> None:
    def imitate(x: Any) -> Any:
        return replace(policy_gradient(x), loss_N=-x.logprobs_N)

    def gradient(groups: list[Group], coefficient: float) -> list[Tensor]:
        algorithm = replace(
            make_algorithm("grpo", {"entropy_coefficient": coefficient}), loss=imitate
        )
        return gradient_of(make_learner(make_model(), algorithm), groups)

    groups = one_in_eight(make_model())
    almost_none = gradient(groups, 1e-12)
    none = gradient(groups, 0.0)
    assert relative(almost_none, none) < EXACT


def test_every_update_has_the_denominator_of_what_it_was_dealt() -> None:
    model = make_model()
    groups = one_in_eight(model)[:4]
    learner = make_learner(model, minibatches=2, lr=0.0)
    with kept_gradients() as kept:
        learned = learner.learn(groups)
    # The update that was dealt flat groups alone is skipped.
    assert (learned.updates, len(kept)) == (1, 1)
    halves = [[groups[0], other] for other in groups[1:]]
    errors = [relative(kept[0], expected(model, half, "grpo", credited=False)) for half in halves]
    assert min(errors) < EXACT


@pytest.mark.parametrize("name", ["grpo", "reinforce", "reinforce++", "reinforce++-baseline"])
def test_a_step_without_credit_leaves_weights_and_moments_alone(name: str) -> None:
    model = make_model()
    learner = make_learner(model, make_algorithm(name, {"kl": {"coefficient": 0}}))
    groups = make_groups()
    learner.learn(groups)
    before = weights_of(model)
    assert learner.learn([flat(one) for one in groups]).updates == 0
    assert same(weights_of(model), before)


def test_the_critic_learns_from_chains_without_credit() -> None:
    def nothing(x: AdvantageInput) -> AdvantageOutput:
        zeros_N = torch.zeros(len(x.chain_N))
        unused_C = torch.zeros(len(x.group_C), dtype=torch.bool)
        return AdvantageOutput(advantages_N=zeros_N, used_C=unused_C, returns_N=zeros_N + 1)

    model = make_model()
    algorithm = Algorithm(
        name="nothing", advantage=nothing, loss=policy_gradient, critic=Critic(clip_value=None)
    )
    learner = make_learner(model, algorithm, lr=3e-3)
    before = weights_of(model)
    losses = [learner.learn(make_groups()).metrics["critic/loss"] for _ in range(5)]
    assert losses[-1] < 0.8 * losses[0]
    assert same(weights_of(model), before)
