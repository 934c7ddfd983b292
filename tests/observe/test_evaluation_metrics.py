"""The numbers of an evaluation, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.observe.finished_groups import chain, group, scored, turn

from agentfly.observe import Counting, evaluation_line, evaluation_metrics, mean_interval
from agentfly.types import ScoreRange, StopReason, Trajectory


def test_an_evaluation_by_hand() -> None:
    # Tasks' means are 0.75, 0 and 1; the failed chain is no zero, and task d has nothing to say.
    groups = [
        scored("a", 1.0, 1.0, 0.5, 0.5),
        scored("b", 0.0, 0.0, 0.0, 0.0),
        scored("c", 1.0, 1.0, None, 1.0),
        scored("d", None, None, None, None),
    ]
    metrics = evaluation_metrics(groups)
    assert metrics["eval/reward"] == pytest.approx(1.75 / 3)
    assert metrics["eval/solved"] == pytest.approx(0.5)
    # of a: 1 - C(2,2)/C(4,2); b: 0; c: 1
    assert metrics["eval/pass@1"] == pytest.approx(0.5)
    assert metrics["eval/pass@2"] == pytest.approx((1 - 1 / 6 + 0 + 1) / 3)
    assert metrics["eval/pass@4"] == pytest.approx(0.5)
    assert (metrics["eval/tasks"], metrics["eval/chains"]) == (3.0, 16.0)
    assert metrics["eval/failed_share"] == 5 / 16
    interval = mean_interval([0.75, 0.0, 1.0], ScoreRange(0, 1))
    assert interval is not None
    assert (metrics["eval/reward_low"], metrics["eval/reward_high"]) == (
        interval.low,
        interval.high,
    )
    assert 0 < metrics["eval/solved_low"] < 0.5 < metrics["eval/solved_high"] < 1


def test_one_held_out_task_has_a_wide_interval_or_none() -> None:
    metrics = evaluation_metrics([scored("a", 1.0, 1.0, 0.0)])
    assert metrics["eval/reward_low"] < 0.05
    assert metrics["eval/reward_high"] > 0.95
    assert [name for name in metrics if "pass@" in name] == [
        "eval/pass@1",
        "eval/pass@2",
        "eval/pass@3",
    ]
    assert "eval/reward_low" not in evaluation_metrics([scored("a", 5.0)])
    assert evaluation_metrics([]) == {"eval/tasks": 0.0, "eval/chains": 0.0}


def late(count: int) -> list[Trajectory]:
    return [
        chain(None, turn(), stop=StopReason.TIME_LIMIT, error="time ran out") for _ in range(count)
    ]


def test_a_chain_that_ran_out_of_time_is_not_solved() -> None:
    """5 of 40 tasks solved and 35 at the time limit are an eighth, not all."""
    solved = [scored(f"solved{i}", 1.0) for i in range(5)]
    slow = [group(f"slow{i}", late(1)) for i in range(35)]
    metrics = evaluation_metrics([*solved, *slow])
    assert (metrics["eval/solved"], metrics["eval/reward"]) == (1 / 8, 1 / 8)
    assert (metrics["eval/time_limit_share"], metrics["eval/failed_share"]) == (35 / 40, 0.0)
    assert metrics["eval/pass@1"] == 1 / 8
    assert 0 < metrics["eval/reward_low"] < 1 / 8 < metrics["eval/reward_high"] < 0.3


@pytest.mark.parametrize(
    ("declared", "given", "counted"),
    [
        (ScoreRange(-1, 1), None, -1.0),
        (ScoreRange(-1, 1), 0.25, 0.25),
        (ScoreRange(high=1), None, 0.0),
        (ScoreRange(2, 5), None, 2.0),
    ],
)
def test_it_counts_with_the_least_reward_unless_another_is_chosen(
    declared: ScoreRange, given: float | None, counted: float
) -> None:
    counting = Counting(ranges={"default": declared}, time_limit_reward=given)
    metrics = evaluation_metrics([group("a", late(1)), scored("b", 1.0)], counting)
    assert metrics["eval/reward"] == (counted + 1.0) / 2
    assert metrics["eval/solved"] == 0.5, "even where the least reward is above 1"


@pytest.mark.parametrize(
    "stop",
    ["turn_limit", "token_limit", "tool_call_limit", "context_limit", "invalid_calls"],
)
def test_at_any_other_limit_a_chain_keeps_its_score(stop: str) -> None:
    ended = group("a", [chain(1.0, turn(), stop=StopReason(stop))])
    metrics = evaluation_metrics([ended])
    assert (metrics["eval/solved"], metrics["eval/failed_share"]) == (1.0, 0.0)


def test_a_prompt_without_room_for_an_answer_is_not_left_out() -> None:
    speechless = group("a", [chain(None, stop=StopReason.CONTEXT_LIMIT)])
    metrics = evaluation_metrics([speechless, scored("b", 1.0)])
    assert (metrics["eval/solved"], metrics["eval/failed_share"]) == (0.5, 0.0)


def test_only_what_the_model_did_not_do_is_left_out_and_reported() -> None:
    broken = [
        chain(None, turn(), stop=StopReason(stop), error="EnvError: it fell over")
        for stop in ("env_crashed", "engine_failed", "lease_timeout", "reward_failed")
    ]
    metrics = evaluation_metrics([group("a", broken), scored("b", 1.0, 0.0, 1.0, 0.0)])
    assert (metrics["eval/solved"], metrics["eval/failed_share"]) == (0.5, 0.5)
    assert metrics["eval/time_limit_share"] == 0.0
    line = evaluation_line(3, metrics)
    assert line.endswith("left out 50%")
    assert evaluation_line(3, evaluation_metrics([group("a", late(1))])).endswith(
        "out of time 100%"
    )


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=12))
def test_an_interval_stays_within_what_the_reward_declares(rewards: list[float]) -> None:
    counting = Counting(ranges={"default": ScoreRange(-1, 1)})
    groups = [scored(f"task{i}", reward) for i, reward in enumerate(rewards)]
    metrics = evaluation_metrics(groups, counting)
    assert -1 <= metrics["eval/reward_low"] < metrics["eval/reward_high"] <= 1


def test_rewards_beyond_0_and_1_are_seen_behind_their_means() -> None:
    groups = [scored("a", 2.0, -1.0), scored("b", 1.0, 1.0), scored("c", -1.0, 1.0)]
    assert evaluation_metrics(groups)["eval/reward_low"] < 0


def test_visits_to_one_task_are_one_task() -> None:
    first, second = scored("a", 1.0), scored("a", 0.0)
    assert evaluation_metrics([first, second])["eval/tasks"] == 1.0
