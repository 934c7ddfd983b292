"""Every advantage equals an independent oracle on ragged steps."""

import random
from collections.abc import Callable

import pytest
import torch
from tests.algorithms import oracle
from tests.algorithms.steps import Step, advantage_input, random_step, scored

from agentfly.algorithms import AdvantageInput, AdvantageOutput, make_algorithm

SEEDS = range(10)
Expected = tuple[oracle.Credits, list[bool]]


def check(output: AdvantageOutput, expected: Expected) -> None:
    credit, used = expected
    flat = [value for values in credit for value in values]
    torch.testing.assert_close(
        output.advantages_N, torch.tensor(flat, dtype=torch.float64), rtol=1e-8, atol=1e-9
    )
    assert output.used_C.tolist() == used


def all_used(step: Step, credit: oracle.Credits) -> Expected:
    return credit, [True] * len(step)


GROUPED: dict[str, Callable[[list[float]], list[float]]] = {
    "grpo": oracle.z_scores,
    "dapo": oracle.z_scores,
    "gspo": oracle.z_scores,
    "cispo": oracle.z_scores,
    "dr-grpo": oracle.centered,
    "rloo": oracle.leave_one_out,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("name", GROUPED)
def test_an_advantage_within_groups(name: str, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    output = make_algorithm(name).advantage(advantage_input(step, kl=kl))
    check(output, oracle.grouped(step, GROUPED[name], kl=kl))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
def test_ppo(kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    rng = random.Random(seed)
    discount, trace, normalize = rng.choice([1.0, 0.9]), rng.choice([1.0, 0.7, 0.0]), seed % 2 == 0
    algorithm = make_algorithm(
        "ppo", {"discount": discount, "trace": trace, "normalize": normalize}
    )
    output = algorithm.advantage(advantage_input(step, kl=kl, values=True))
    credit, returns = oracle.gae(step, discount=discount, trace=trace, normalize=normalize, kl=kl)
    check(output, all_used(step, credit))
    flat = torch.tensor([r for chain in returns for r in chain], dtype=torch.float64)
    assert output.returns_N is not None
    torch.testing.assert_close(output.returns_N, flat, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.8])
def test_reinforce_plus_plus(discount: float, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    algorithm = make_algorithm("reinforce++", {"discount": discount})
    output = algorithm.advantage(advantage_input(step, kl=kl))
    check(output, all_used(step, oracle.reinforce_plus_plus(step, discount=discount, kl=kl)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("denominator", ["scored", "credited"])
def test_reinforce_plus_plus_with_a_baseline(denominator: str, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    algorithm = make_algorithm("reinforce++-baseline", {"denominator": denominator})
    output = algorithm.advantage(advantage_input(step, kl=kl))
    whole_step = denominator == "scored"
    check(output, oracle.reinforce_plus_plus_baseline(step, kl=kl, whole_step=whole_step))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("baseline", [False, True])
def test_reinforce(baseline: bool, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    output = make_algorithm("reinforce", {"baseline": baseline}).advantage(
        advantage_input(step, kl=kl)
    )
    check(output, all_used(step, oracle.reinforce(step, baseline=baseline, kl=kl)))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("discount", [1.0, 0.6])
def test_per_turn(discount: float, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    algorithm = make_algorithm("per-turn", {"discount": discount})
    output = algorithm.advantage(advantage_input(step, kl=kl))
    check(output, oracle.per_turn(step, discount=discount, kl=kl))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kl", [False, True])
@pytest.mark.parametrize("scale", [False, True])
def test_gigpo(scale: bool, kl: bool, seed: int) -> None:
    step = scored(random_step(seed))
    options = {"discount": 0.7, "step_weight": 0.5, "scale_by_std": scale}
    output = make_algorithm("gigpo", options).advantage(advantage_input(step, kl=kl))
    expected = oracle.gigpo(step, discount=0.7, step_weight=0.5, scale=scale, kl=kl)
    check(output, expected)


def test_the_steps_hold_what_is_claimed_of_them() -> None:
    steps = [random_step(seed) for seed in SEEDS]
    chains = [chain for step in steps for chain in step]
    assert any(chain.reward is None for chain in chains)
    assert any(len({turn.stream for turn in chain.turns}) == 2 for chain in chains)
    assert any(not turn.tokens for chain in chains for turn in chain.turns)
    used = [make_algorithm("grpo").advantage(advantage_input(scored(s))).used_C for s in steps]
    assert any(bool((~u).any()) and bool(u.any()) for u in used)
    sizes = [[c.group for c in scored(s)].count(g) for s in steps for g in range(5)]
    assert 1 in sizes


@pytest.mark.parametrize("name", ["grpo", "rloo", "reinforce++-baseline", "per-turn", "gigpo"])
@pytest.mark.parametrize("rewards", [[0.7], [0.7, 0.7, 0.7]])
def test_a_group_that_compares_nothing_gives_nothing(name: str, rewards: list[float]) -> None:
    n = len(rewards)
    x = AdvantageInput(
        rewards_C=torch.tensor([*rewards, 0.0, 1.0]),
        group_C=torch.tensor([*[0] * n, 1, 1]),
        chain_N=torch.arange(n + 2),
        turn_N=torch.arange(n + 2),
        chain_U=torch.arange(n + 2),
        rewards_U=torch.zeros(n + 2),
        state_U=torch.full((n + 2,), -1),
    )
    output = make_algorithm(name, {"denominator": "credited"}).advantage(x)
    assert output.used_C.tolist() == [False] * n + [True, True]
    assert output.advantages_N[:n].tolist() == [0.0] * n
    assert bool((output.advantages_N[n:] != 0).all())


@pytest.mark.parametrize("name", ["ppo", "reinforce++", "reinforce++-baseline", "reinforce"])
def test_a_step_whose_tokens_are_all_worth_the_same_has_no_credit(name: str) -> None:
    x = AdvantageInput(
        rewards_C=torch.full((4,), 0.7),
        group_C=torch.tensor([0, 0, 1, 1]),
        chain_N=torch.arange(4),
        turn_N=torch.arange(4),
        chain_U=torch.arange(4),
        rewards_U=torch.zeros(4),
        state_U=torch.full((4,), -1),
        values_N=torch.zeros(4),
    )
    assert make_algorithm(name).advantage(x).used_C.tolist() == [False] * 4
