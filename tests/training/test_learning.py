"""A real, tiny model learns to use a calculator over several turns, end to end.

`make learning` does the same with four algorithms on three seeds each.
"""

import pytest
from benchmarks.learning import EXACT, MIN_GAIN, learn
from tests.training import dying_replica

TWO = ("engine.replicas=2",)
SPREAD_OF_SEEDS = 0.08
"""Held-out rewards of three seeds of one algorithm lie within twice this range."""


@pytest.mark.timeout(600)
def test_grpo_begins_to_learn_the_tiny_calculator_task() -> None:
    curve = learn("grpo", 0, ("train.steps=8",))
    assert curve.gain >= MIN_GAIN / 2
    assert len(curve.rewards) == 8


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_grpo_learns_the_tiny_calculator_task() -> None:
    curve = learn("grpo", 0)
    assert curve.gain >= MIN_GAIN
    assert len(curve.rewards) == 30


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_replicas_learn_as_much_as_one_though_one_dies_half_way() -> None:
    one = learn("grpo", 0)
    two = learn("grpo", 0, (*EXACT, f"engine.name={dying_replica.__name__}:make_engine", *TWO))
    print(f"one replica {one.before:.2f} → {one.after:.2f}, two {two.before:.2f} → {two.after:.2f}")
    assert dying_replica.DEATHS == [1]
    assert abs(two.after - one.after) <= SPREAD_OF_SEEDS
    assert two.gain >= MIN_GAIN


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "change", ["train.lr=0", "algorithm.name=tests.training.shuffled_grpo:algorithm"]
)
def test_nothing_is_learned_without_a_rate_or_with_shuffled_advantages(change: str) -> None:
    assert learn("grpo", 0, (*EXACT, change)).gain < MIN_GAIN / 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_adapters_learn_it_too() -> None:
    assert learn("grpo", 0, (*EXACT, "model.lora={}", "train.lr=3e-3")).gain >= MIN_GAIN
