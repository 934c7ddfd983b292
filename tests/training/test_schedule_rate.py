"""The learning rate over a run."""

import pytest

from agentfly.config import TrainSettings
from agentfly.training.learner.optimizer import learning_rate


def rates(**settings: object) -> list[float]:
    train = TrainSettings.model_validate({"steps": 4, "lr": 2.0, **settings})
    return [learning_rate(step, train) for step in range(6)]


def test_a_constant_rate_is_reached_by_a_linear_warm_up() -> None:
    assert rates(warmup_steps=2) == [1.0, 2.0, 2.0, 2.0, 2.0, 2.0]


def test_a_cosine_falls_to_nothing_and_stays_there() -> None:
    half = 2**0.5 / 2
    expected = [2.0, 1 + half, 1.0, 1 - half, 0.0, 0.0]
    assert rates(schedule="cosine") == pytest.approx(expected)


def test_a_warm_up_longer_than_the_run_is_no_division_by_zero() -> None:
    assert rates(schedule="cosine", warmup_steps=4)[3] == 2.0
