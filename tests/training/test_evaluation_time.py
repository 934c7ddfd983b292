"""Chains that run out of time, in a whole run: counted when evaluating, dropped when training."""

import asyncio
from pathlib import Path

import pytest
from tests.training.small_trainer import letters, settings, train

from agentfly import Agent, Limits, SamplingParams, Source, group_reward, reward
from agentfly.agents.source import score_range
from agentfly.rewards import combine, exact_match
from agentfly.types import ANY_SCORE, GroupReward, Reward, ScoreRange, Seed, Step, Task

QUICK, SLOW = {"id": "quick", "question": "?"}, {"id": "slow", "question": "?"}


class Stuck:
    """An environment that does not begin on some tasks."""

    async def reset(self, task: Task, seed: Seed) -> Step:
        if task.id.startswith("slow"):
            await asyncio.Event().wait()
        return Step(observation="Begin.")

    def step(self, action: str) -> Step:
        return Step(observation=action.upper(), done=True)

    def close(self) -> None:
        """Have nothing to free."""


@reward(range=(-1, 1))
def content(final_response: str) -> float:
    """Be content with anything."""
    return 1.0 + 0 * len(final_response)


def test_a_run_counts_them_and_reports_them(tmp_path: Path) -> None:
    agent = Agent(
        "tiny-random",
        environment=Stuck,
        reward=content,
        sampling=SamplingParams(max_tokens=6),
        limits=Limits(max_turns=1, seconds=5),
    )
    held_out = [{**row, "id": f"{row['id']} held out"} for row in (QUICK, SLOW)]
    chosen = settings(
        tmp_path,
        train={"steps": 1},
        eval={"every": 0, "at_start": False, "num_chains": 1},
        rollout={"tasks_per_step": 2, "num_chains": 2, "max_failed_share": 0.9, "retries": 0},
    )
    result = train(
        Source(agent=agent, tasks=[QUICK, SLOW], eval_tasks=held_out, name="stuck"), chosen=chosen
    )
    step, evaluation = (record.metrics for record in result.metrics)
    assert (step["reward/mean"], step["chains/time_limit_share"]) == (1.0, 0.5)
    assert "50% of the chains ran out of time" in (result.folder / "log.txt").read_text()
    assert evaluation["eval/reward"] == (1.0 - 1.0) / 2, "the least reward that it declares"
    assert (evaluation["eval/solved"], evaluation["eval/failed_share"]) == (0.5, 0.0)
    assert evaluation["eval/time_limit_share"] == 0.5
    assert -1 <= evaluation["eval/reward_low"] < evaluation["eval/reward_high"] <= 1
    assert result.best is not None, "such an evaluation is one to choose by"


@group_reward(range=(0, 2))
def ranked(final_responses: list[str]) -> list[float]:
    """Rank nobody."""
    return [0.0 for _ in final_responses]


@pytest.mark.parametrize(
    ("own", "of_group", "possible"),
    [
        (content, None, ScoreRange(-1, 1)),
        (content, ranked, ScoreRange(-1, 3)),
        (letters, None, ANY_SCORE),
        (letters, ranked, ANY_SCORE),
        (None, ranked, ANY_SCORE),
        (exact_match(), None, ScoreRange(0, 1)),
        (combine({exact_match(): 1.0, content: -0.5}), None, ScoreRange(-0.5, 1.5)),
        (combine({exact_match(): 1.0, letters: 0.0}), None, ScoreRange(0, 1)),
        (combine({exact_match(): 1.0, letters: 0.1}), None, ANY_SCORE),
    ],
)
def test_what_a_chain_can_score(
    own: Reward | None, of_group: GroupReward | None, possible: ScoreRange
) -> None:
    agent = Agent("tiny-random", reward=own, group_reward=of_group)
    assert score_range(agent) == possible
