"""Every loss, term, correction and aggregation equals an independent oracle, gradients included."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tests.algorithms import oracle
from tests.algorithms.steps import Chain, Step, Token, loss_input, random_step, streams

from agentfly.algorithms import LossInput, Objective, make_algorithm, objective, value_loss

TokenLoss = Callable[[Sequence[Token], int], float]
AGGREGATIONS = ["token_mean", "sequence_mean_of_sums", "sequence_mean_of_means"]
NO_CORRECTION = {"correction": {"level": "none"}}


def losses_of_chains(step: Step, loss: TokenLoss) -> list[list[float]]:
    """The losses of all tokens of each chain, over all its streams."""
    found: dict[int, list[float]] = {id(chain): [] for chain in step}
    for chain, stream in streams(step):
        found[id(chain)] += [loss(stream, t) for t in range(len(stream))]
    return [found[id(chain)] for chain in step]


def expected_loss(step: Step, loss: TokenLoss, aggregation: str) -> float:
    return oracle.aggregated(aggregation, step, losses_of_chains(step, loss))


def expected_gradient(step: Step, loss: TokenLoss, aggregation: str) -> list[float]:
    """By moving each log-probability a little to both sides, and back."""
    gradient, small = [], 1e-6
    for token in [token for _, stream in streams(step) for token in stream]:
        kept = token.new
        token.new = kept + small
        above = expected_loss(step, loss, aggregation)
        token.new = kept - small
        below = expected_loss(step, loss, aggregation)
        token.new = kept
        gradient.append((above - below) / (2 * small))
    return gradient


def differentiate(
    name: str, options: dict[str, Any], x: LossInput
) -> tuple[Objective, list[float]]:
    result = objective(make_algorithm(name, options), x)
    result.loss.backward()
    assert x.logprobs_N.grad is not None
    return result, x.logprobs_N.grad.tolist()


def check(
    name: str, options: dict[str, Any], step: Step, loss: TokenLoss, aggregation: str
) -> None:
    result, gradient = differentiate(name, options, loss_input(step))
    assert float(result.loss.detach()) == pytest.approx(
        expected_loss(step, loss, aggregation), rel=1e-9, abs=1e-12
    )
    assert gradient == pytest.approx(expected_gradient(step, loss, aggregation), rel=1e-4, abs=1e-7)


def clipped(low: float, high: float, dual: float | None) -> TokenLoss:
    return lambda s, t: oracle.clipped(oracle.token_ratio(s, t), s[t].advantage, low, high, dual)


@pytest.mark.parametrize("name", ["ppo", "grpo", "rloo", "reinforce++", "gigpo", "per-turn"])
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("dual", [None, 1.3])
def test_the_clipped_loss(name: str, aggregation: str, dual: float | None) -> None:
    clip = {"low": 0.1, "high": 0.3} | ({} if dual is None else {"dual": dual})
    options = {**NO_CORRECTION, "clip": clip, "aggregation": aggregation, "kl": {"coefficient": 0}}
    for seed in range(2):
        check(name, options, random_step(seed), clipped(0.1, 0.3, dual), aggregation)


def test_the_defaults_of_dapo() -> None:
    for seed in range(2):
        check("dapo", NO_CORRECTION, random_step(seed), clipped(0.2, 0.28, None), "token_mean")


def test_dr_grpo_divides_by_a_constant() -> None:
    for seed in range(2):
        step = random_step(seed)
        result, _ = differentiate("dr-grpo", {**NO_CORRECTION, "length": 7}, loss_input(step))
        sums = expected_loss(step, clipped(0.2, 0.2, None), "sequence_mean_of_sums")
        assert float(result.loss.detach()) == pytest.approx(sums / 7, rel=1e-9)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_gspo(aggregation: str) -> None:
    options = {**NO_CORRECTION, "clip": {"low": 0.05, "high": 0.08}, "aggregation": aggregation}
    for seed in range(2):
        step = random_step(seed)
        check("gspo", options, step, gspo(step), aggregation)


def test_gspo_with_one_advantage_for_a_sequence_has_the_gradient_of_the_sequence() -> None:
    """There the paper's two forms agree: the second one moves the geometric mean itself."""
    old, new = [-1.0, -2.0, -0.5], [-0.9, -2.2, -0.4]
    ratio = math.exp(sum(n - o for n, o in zip(new, old, strict=True)) / 3)
    x = LossInput(
        logprobs_N=torch.tensor(new, dtype=torch.float64, requires_grad=True),
        old_logprobs_N=torch.tensor(old, dtype=torch.float64),
        sampled_logprobs_N=torch.tensor(old, dtype=torch.float64),
        advantages_N=torch.full((3,), 2.0, dtype=torch.float64),
        sample_N=torch.zeros(3, dtype=torch.long),
        chain_tokens_N=torch.full((3,), 3),
        num_tokens=3.0,
        num_chains=1.0,
    )
    result, gradient = differentiate("gspo", {"clip": {"low": 0.2, "high": 0.2}}, x)
    assert float(result.loss.detach()) == pytest.approx(-2 * ratio)
    assert gradient == pytest.approx([-2 * ratio / 3] * 3)


def test_gspo_gives_no_gradient_to_a_token_that_the_correction_leaves_out() -> None:
    old, sampled = [-1.0, -2.0, -0.5, -1.0], [-1.0, -2.0, -4.5, -1.1]
    leaf_N = torch.tensor(old, dtype=torch.float64, requires_grad=True)
    x = LossInput(
        logprobs_N=leaf_N,
        old_logprobs_N=leaf_N.detach(),
        sampled_logprobs_N=torch.tensor(sampled, dtype=torch.float64),
        advantages_N=torch.full((4,), 2.0, dtype=torch.float64),
        sample_N=torch.zeros(4, dtype=torch.long),
        chain_tokens_N=torch.full((4,), 4),
        num_tokens=4.0,
        num_chains=1.0,
    )
    mask = {"level": "token", "how": "mask", "cap": 2.0}
    _, gradient = differentiate("gspo", {"correction": mask}, x)
    assert gradient == pytest.approx([-0.5, -0.5, 0.0, -0.5 * math.exp(0.1)])


def gspo(step: Step) -> TokenLoss:
    held = {id(token): token.new for token in _tokens(step)}

    def loss(stream: Sequence[Token], t: int) -> float:
        ratio = oracle.held_sequence_ratio(stream, t, held)
        return oracle.clipped(ratio, stream[t].advantage, 0.05, 0.08, None)

    return loss


def test_gspo_averages_over_chains_by_default() -> None:
    assert (
        make_algorithm("gspo").aggregate
        is make_algorithm("grpo", {"aggregation": "sequence_mean_of_means"}).aggregate
    )


def test_cispo() -> None:
    for seed in range(2):
        step = random_step(seed)
        tokens = [token for _, stream in streams(step) for token in stream]
        weights = {id(t): min(oracle.token_ratio([t], 0), 1.2) * t.advantage for t in tokens}
        result, gradient = differentiate(
            "cispo", {**NO_CORRECTION, "max_ratio": 1.2}, loss_input(step)
        )
        expected = oracle.mean([-weights[id(t)] * t.new for t in tokens])
        assert float(result.loss.detach()) == pytest.approx(expected, rel=1e-9)
        # The weight is held: only the log-probability is differentiated.
        assert gradient == pytest.approx([-weights[id(t)] / len(tokens) for t in tokens], rel=1e-9)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_reinforce(aggregation: str) -> None:
    for seed in range(2):
        options = {**NO_CORRECTION, "aggregation": aggregation}
        step = random_step(seed)
        check("reinforce", options, step, lambda s, t: -s[t].new * s[t].advantage, aggregation)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_a_kl_term_and_an_entropy_bonus_in_the_loss(estimator: str) -> None:
    def loss(stream: Sequence[Token], t: int) -> float:
        token = stream[t]
        return (
            -token.new * token.advantage + 0.3 * oracle.kl(estimator, token) - 0.7 * token.entropy
        )

    options = {
        **NO_CORRECTION,
        "kl": {"coefficient": 0.3, "estimator": estimator, "place": "loss"},
        "entropy_coefficient": 0.7,
    }
    for seed in range(2):
        check("reinforce", options, random_step(seed), loss, "token_mean")


def test_a_kl_in_the_reward_is_no_part_of_the_loss() -> None:
    kl = {"coefficient": 0.3, "estimator": "k1", "place": "reward"}
    step = random_step(1)
    with_kl, _ = differentiate("grpo", {"kl": kl}, loss_input(step))
    without, _ = differentiate("grpo", {}, loss_input(step))
    assert with_kl.loss == without.loss
    tokens = [token for _, stream in streams(step) for token in stream]
    expected = [oracle.kl("k1", token) for token in tokens]
    assert with_kl.metrics["policy/kl"].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("level", ["token", "sequence", "none"])
@pytest.mark.parametrize("how", ["truncate", "mask"])
def test_the_correction(level: str, how: str) -> None:
    def loss(stream: Sequence[Token], t: int) -> float:
        weight = oracle.weight(level, how, 1.2, stream, t)
        penalty = 0.5 * oracle.kl("k3", stream[t])
        return weight * clipped(0.2, 0.2, None)(stream, t) + penalty

    options = {
        "correction": {"level": level, "how": how, "cap": 1.2},
        "kl": {"coefficient": 0.5},
    }
    for seed in range(2):
        check("grpo", options, random_step(seed), loss, "token_mean")


def in_parts(step: Step, seed: int) -> list[list[tuple[Chain, list[Token]]]]:
    """The streams of a step in any order, cut anywhere into microbatches."""
    rng = random.Random(seed)
    all_streams = list(streams(step))
    rng.shuffle(all_streams)
    cuts = sorted(rng.sample(range(1, len(all_streams)), min(3, len(all_streams) - 1)))
    return [all_streams[a:b] for a, b in itertools.pairwise([0, *cuts, len(all_streams)])]


@pytest.mark.parametrize("name", ["grpo", "dr-grpo", "gspo", "cispo", "reinforce"])
def test_microbatches_add_up(name: str) -> None:
    options: dict[str, Any] = {"kl": {"coefficient": 0.1}, "entropy_coefficient": 0.1}
    for seed in range(5):
        step = random_step(seed)
        whole, gradient = differentiate(name, options, loss_input(step))
        of_token = dict(zip(map(id, _tokens(step)), gradient, strict=True))
        total = 0.0
        for part in in_parts(step, seed):
            result, partial = differentiate(name, options, loss_input(step, part))
            total += float(result.loss.detach())
            expected = [of_token[id(token)] for _, stream in part for token in stream]
            assert partial == pytest.approx(expected, rel=1e-9, abs=1e-15)
        assert total == pytest.approx(float(whole.loss.detach()), rel=1e-9)


def _tokens(step: Step) -> list[Token]:
    return [token for _, stream in streams(step) for token in stream]


def test_the_value_loss() -> None:
    rng = random.Random(5)
    new, old, told = ([rng.gauss(0, 1) for _ in range(50)] for _ in range(3))
    clip = 0.4
    losses = [oracle.value_loss(n, o, t, clip) for n, o, t in zip(new, old, told, strict=True)]
    values_N = torch.tensor(new, dtype=torch.float64, requires_grad=True)
    result = value_loss(
        values_N,
        torch.tensor(old, dtype=torch.float64),
        torch.tensor(told, dtype=torch.float64),
        clip=clip,
        num_tokens=80,
    )
    assert float(result.loss.detach()) == pytest.approx(sum(losses) / 80, rel=1e-9)
    free = value_loss(
        values_N, values_N.detach() + 9, values_N.detach() + 1, clip=None, num_tokens=2
    )
    assert float(free.loss.detach()) == pytest.approx(50 / 4)
    assert result.clipped_N.any()
    assert not free.clipped_N.any()
