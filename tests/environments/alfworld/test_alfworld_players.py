"""Results of the scripted players."""

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random

import pytest
from tests.environments.alfworld.alfworld_play import kit, play

from agentfly.environments import Kit, Player, Scene
from agentfly.environments.alfworld.tasks import Row
from agentfly.types import Seed, StopReason, Task

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "alfworld"
MAX_STEPS = 50


def wins(made: Kit, row: Row, player: Player) -> bool:
    """Play without the agent's loop, which another test goes through."""
    assert made.environment is not None
    env, task = made.environment.make(), Task.from_row(row)
    observation = env.reset(task, Seed(0)).observation
    playing = player(Scene(task=task, observation=observation, random=Random(row["id"])))
    said = next(playing)
    for _ in range(MAX_STEPS):
        if not said.calls:
            return False
        step = env.step(json.loads(said.calls[0].arguments)["command"])
        if step.done:
            return True
        said = playing.send(step.observation)
    return False


def rate(made: Kit, rows: Iterable[Row], player: Player | None) -> float:
    assert player is not None
    results = [wins(made, row, player) for row in rows]
    return sum(results) / len(results)


@pytest.mark.parametrize("size", ["small", "medium", "large"])
def test_the_expert_wins_generated_games(size: str) -> None:
    made = kit(size=size, eval_games=120)
    assert rate(made, made.eval_tasks(), made.expert) >= 0.95


def test_the_expert_reads_observations_with_commands_too() -> None:
    made = kit(size="small", eval_games=60, show_commands=True)
    assert rate(made, made.eval_tasks(), made.expert) >= 0.95


@pytest.mark.skipif(not SHARED.exists(), reason="needs the benchmark's games")
def test_the_expert_wins_the_benchmarks_games() -> None:
    for goal_text in ("template", "human"):
        made = kit(data=str(SHARED), goal_text=goal_text)
        rows = list(made.eval_tasks())
        assert len(rows) == 140
        assert rate(made, rows, made.expert) >= 0.90
        assert rate(made, rows, made.gold) == 1.0


def test_the_gold_player_wins_all_and_the_random_one_few() -> None:
    made = kit(size="small", eval_games=120)
    rows = list(made.eval_tasks())
    assert rate(made, rows, made.gold) == 1.0
    assert 0.0 < rate(made, rows, made.random) < 0.3


async def test_the_noisy_player_wins_with_impossible_commands_in_between() -> None:
    made = kit(size="small", games=12, actions="text")
    chains = [await play(made, row, made.noisy) for row in made.tasks()]
    assert [chain.reward for chain in chains] == [1.0] * 12
    turns = [turn for chain in chains for turn in chain.turns]
    refused = [turn.message.content for turn in turns if turn.invalid]
    assert 0 < len(refused) < len(turns) / 2
    for start in ("take", "go to"):
        assert any(command.startswith(start) for command in refused)
    experts = [await play(made, row, made.expert) for row in made.tasks()]
    valid = [turn.message.content for turn in turns if not turn.invalid]
    assert valid == [turn.message.content for chain in experts for turn in chain.turns]


async def test_the_expert_plays_through_the_agent() -> None:
    made = kit(size="medium", games=6)
    for row in made.tasks():
        assert (await play(made, row, made.expert)).reward == 1.0


async def test_an_expert_that_finds_nothing_gives_up() -> None:
    made = kit(size="small", games=1)
    row = dict(next(iter(made.tasks())), item="elephant")
    trajectory = await play(made, row, made.expert)
    assert trajectory.final_response == "I give up."


async def test_the_players_say_commands_in_text() -> None:
    made = kit(size="small", games=3, max_turns=12, actions="text")
    assert made.tools == ()
    for row in made.tasks():
        trajectory = await play(made, row, made.expert)
        assert trajectory.stop is StopReason.ENV_ENDED
        assert trajectory.reward == 1.0
        assert trajectory.turns[0].message.content.startswith("go to ")
        assert not any(turn.message.tool_calls for turn in trajectory.turns)


async def test_an_expert_of_commands_in_text_that_finds_nothing_looks_around() -> None:
    made = kit(size="small", games=1, max_turns=40, actions="text")
    row = dict(next(iter(made.tasks())), item="elephant")
    trajectory = await play(made, row, made.expert)
    assert trajectory.stop is StopReason.TURN_LIMIT
    assert trajectory.turns[-1].message.content == "look"
    assert trajectory.reward == 0.0
    assert trajectory.reward == 0.0
