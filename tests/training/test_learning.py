"""A real, tiny model learns to use a calculator over several turns, end to end."""

import pytest
from benchmarks.learning import ALGORITHMS, MIN_GAIN, SEEDS, learn

BRIEF = ("train.steps=12",)


@pytest.mark.timeout(600)
def test_grpo_learns_the_tiny_calculator_task() -> None:
    curve = learn("grpo", 0, *BRIEF)
    assert curve.gain >= MIN_GAIN
    assert len(curve.rewards) == 12


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "change", ["train.lr=0", "algorithm.name=tests.training.shuffled_grpo:algorithm"]
)
def test_nothing_is_learnt_without_a_rate_or_with_shuffled_advantages(change: str) -> None:
    assert learn("grpo", 0, *BRIEF, change).gain < MIN_GAIN / 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_adapters_learn_it_too() -> None:
    assert learn("grpo", 0, "model.lora={}", "train.lr=3e-3").gain >= MIN_GAIN


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_learns_it_on_every_seed(algorithm: str, seed: int) -> None:
    assert learn(algorithm, seed).gain >= MIN_GAIN
