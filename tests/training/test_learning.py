"""A model learns over several turns, end to end.

Random weights learn to write vowels, and, in a minute, the tiny model to use a calculator; `make
learning` does the latter with four algorithms on three seeds each.
"""

from pathlib import Path

import pytest
from benchmarks.learning import EXACT, MIN_GAIN, learn
from tests.training import dying_replica
from tests.training.calling_kind import Calling
from tests.training.small_trainer import HELD_OUT, ROWS, settings, train

from agentfly import Agent, Limits, SamplingParams, Source, reward, tool

TWO = ("engine.replicas=2",)
SPREAD_OF_SEEDS = 0.08
"""Held-out rewards of three seeds of one algorithm lie within twice this range."""


@tool
def note(text: str) -> str:
    """Note something down.

    Args:
        text: What to note.
    """
    return text.upper()


@reward
def vowels(final_response: str) -> float:
    """Return the share of vowels: a third at random, and two thirds by repeating a token."""
    return sum(letter in "aeiou" for letter in final_response) / (1 + len(final_response))


def test_random_weights_learn_in_chains_with_a_tool(tmp_path: Path) -> None:
    agent = Agent(
        "tiny-random",
        tools=[note],
        reward=vowels,
        kind=Calling(),
        sampling=SamplingParams(max_tokens=8),
        limits=Limits(max_turns=2, max_invalid_calls=100),
    )
    chosen = settings(
        tmp_path,
        rollout={"tasks_per_step": 4, "num_chains": 8},
        train={"steps": 18, "lr": 1e-2, "warmup_steps": 0},
        eval={"every": 0, "num_chains": 8},
        checkpoint={"every": 100},
    )
    result = train(Source(agent=agent, tasks=ROWS, eval_tasks=HELD_OUT), chosen=chosen)
    records = [record.metrics for record in result.metrics]
    before, after = (each["eval/reward"] for each in records if "eval/reward" in each)
    assert after > before + 0.15, "noise is 0.04"
    assert any(each.get("turns/max") == 2 for each in records)


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
