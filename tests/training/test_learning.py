"""A real, tiny model learns to use a calculator over several turns, end to end.

`make learning` does the same with four algorithms on three seeds each.
"""

import pytest
from benchmarks.learning import EXACT, MIN_GAIN, learn


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
