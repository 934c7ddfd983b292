"""Rows of an evaluation, paired comparisons, and how often their intervals hold the truth."""

import math
import random
from collections.abc import Callable, Sequence
from statistics import variance

import pytest
from tests.observe.finished_groups import chain, group, scored, turn

from agentfly.config.evaluation_settings import PriceSettings
from agentfly.observe.bootstrap import MIN_DIFFERING, paired_interval, share_interval
from agentfly.observe.comparison import compare_groups
from agentfly.observe.estimate import (
    Interval,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from agentfly.observe.evaluation_metrics import Counting
from agentfly.observe.evaluation_summary import evaluation_rows
from agentfly.observe.evaluation_table import notes
from agentfly.observe.time_left import TimeLeft
from agentfly.types import ScoreRange, StopReason

UNIT = ScoreRange(0.0, 1.0)


def test_rows_by_hand() -> None:
    groups = [scored("a", 1.0, 1.0), scored("b", 1.0, 0.0), scored("c", None, 0.0)]
    (row,) = evaluation_rows(groups, Counting(), prices=PriceSettings(prompt=1e6, sampled=2e6))
    assert (row.tasks, row.chains, row.failed, row.failures) == (3, 6, 1, {"EnvError": 1})
    assert row.solved is not None
    assert row.solved.value == pytest.approx((1 + 0.5 + 0) / 3)
    assert row.pass_at[1].value == pytest.approx(0.5)
    assert row.pass_at[2].value == 1.0, "task c has one chain that counts"
    assert row.pass_hat[2].value == 0.5
    assert row.pass_hat[2].interval == wilson_interval(1, 2)
    # Three prompt tokens and four sampled ones a turn; one of six chains has no turn.
    assert row.cost == pytest.approx(5 * (3 + 2 * 4) / 6)
    by_answer = evaluation_rows(groups, Counting(), by=["answer", "missing"])
    assert [row.title for row in by_answer] == ["all", "answer = 42", "missing = -"]


def test_a_chain_without_a_score_is_no_failed_one() -> None:
    unscored = group("b", [chain(None, turn()), chain(0.0, turn())])
    whole, *_ = evaluation_rows([scored("a", 1.0, None), unscored], Counting())
    assert (whole.chains, whole.failed, whole.unscored) == (4, 1, 1)
    assert whole.to_json()["unscored"] == 1
    assert whole.reward is not None
    assert whole.reward.value == 0.5, "of two chains that count"
    *_, failed, left_out = notes(whole)
    assert failed.startswith("1 of 4 chains failed for a reason outside the model")
    assert left_out.startswith("1 of 4 chains ended without a score: no step had a reward, and no")


def test_a_chain_that_ran_out_of_time_counts_and_is_not_unscored() -> None:
    late = chain(None, turn(), stop=StopReason.TIME_LIMIT, error="time ran out")
    (row,) = evaluation_rows([group("a", [late])], Counting())
    assert (row.chains, row.failed, row.unscored) == (1, 0, 0)
    assert not [note for note in notes(row) if "without a score" in note]


def test_a_paired_comparison_finds_what_two_intervals_hide() -> None:
    """Tasks differ by far more than models do, and the second is a little better on each."""
    draw = random.Random(0)
    levels = [draw.random() * 0.9 for _ in range(40)]
    first = [scored(f"t{i}", level) for i, level in enumerate(levels)]
    better = [level + draw.random() * 0.1 for level in levels]
    second = [scored(f"t{i}", level) for i, level in enumerate(better)]
    found = compare_groups(first, second, names=("a", "b"), counting=Counting())
    assert found.reward.is_clear
    assert (found.reward.better, found.reward.worse) == (40, 0)
    assert "b earns 0.05" in found.sentence
    error = math.sqrt((variance(levels) + variance(better)) / 40)
    assert found.reward.value < 2 * error, "unpaired, it is within two standard errors"
    rows = [evaluation_rows(groups, Counting())[0].reward for groups in (first, second)]
    one, other = (row.interval for row in rows if row is not None)
    assert one is not None
    assert other is not None
    assert other.low < one.high, "each interval alone holds the other's mean"
    shuffled = [scored(f"t{i}", level + 0.05) for i, level in enumerate(draw.sample(levels, 40))]
    unpaired = compare_groups(first, shuffled, names=("a", "b"), counting=Counting())
    assert not unpaired.reward.is_clear


def test_equal_and_few_differences_are_no_proof() -> None:
    none = paired_interval([0.0] * 30, UNIT)
    assert none is not None
    assert none.low < -0.05 < 0.05 < none.high
    few = paired_interval([1.0] * (MIN_DIFFERING - 1) + [0.0] * 90, UNIT)
    assert few is not None
    assert few.low < 0.05 < 0.09 < few.high


def test_the_time_left_is_a_range_that_narrows() -> None:
    left = TimeLeft(total=1000)
    assert left.estimate(60.0) is None
    widths = []
    for ended in (10, 100, 400):
        left.ended = ended
        low, high = left.estimate(float(ended)) or (0.0, 0.0)
        assert low <= 1000 - ended <= high, "one chain a second"
        widths.append((high - low) / (1000 - ended))
    assert widths == sorted(widths, reverse=True)


Sample = Callable[[random.Random], Sequence[float]]
SAMPLES = 1500
"""Standard error of a coverage of 95%: 0.56%."""


def solved_tasks(chance: float, count: int) -> Sample:
    return lambda draw: [float(draw.random() < chance) for _ in range(count)]


def attempts(value: Callable[[int, int, int], float], k: int, count: int) -> Sample:
    """Draw tasks that are easy, middling or hard, and estimate from eight attempts at each."""

    def sample(draw: random.Random) -> list[float]:
        chances = [draw.choice([0.1, 0.5, 0.9]) for _ in range(count)]
        solved = [sum(draw.random() < chance for _ in range(8)) for chance in chances]
        return [value(one, 8, k) for one in solved]

    return sample


def truth_of(power: Callable[[float], float]) -> float:
    return sum(map(power, (0.1, 0.5, 0.9))) / 3


CASES: dict[str, tuple[Sample, float, Callable[[Sequence[float]], Interval | None]]] = {
    "share 30%": (solved_tasks(0.3, 100), 0.3, share_interval),
    "share 80%": (solved_tasks(0.8, 60), 0.8, share_interval),
    "pass@4": (attempts(pass_at_k, 4, 80), truth_of(lambda p: 1 - (1 - p) ** 4), share_interval),
    "pass^4": (attempts(pass_hat_k, 4, 80), truth_of(lambda p: p**4), share_interval),
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("case", CASES)
def test_intervals_hold_the_truth_in_93_to_97_of_100_samples(case: str) -> None:
    sample, truth, interval_of = CASES[case]
    draw, held, known = random.Random(case), 0, dict[tuple[float, ...], Interval | None]()
    for _ in range(SAMPLES):
        values = tuple(sorted(sample(draw)))
        if values not in known:
            known[values] = interval_of(values)
        interval = known[values]
        assert interval is not None
        held += interval.low <= truth <= interval.high
    coverage = held / SAMPLES
    print(f"{case}: {coverage:.1%} ± {math.sqrt(coverage * (1 - coverage) / SAMPLES):.1%}")
    assert 0.93 <= coverage <= 0.97
