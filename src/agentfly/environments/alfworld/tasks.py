"""Tasks as rows: small, and enough to make the game in any process."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentfly.environments.alfworld.engine.game import Game, Script
from agentfly.environments.alfworld.engine.goal import Goal, TaskType
from agentfly.environments.alfworld.game_generator import Recipe, Rooms, Size, Split, generate
from agentfly.environments.alfworld.official_games import (
    GoalText,
    OfficialGame,
    data_folder,
    official_games,
    official_script,
    read_problem,
)
from agentfly.environments.alfworld.official_games import Split as OfficialSplit
from agentfly.errors import ConfigError

Row = Mapping[str, Any]


def generated_rows(
    count: int, *, split: Split, task_types: Sequence[TaskType], size: Size, rooms: Rooms
) -> Iterator[Row]:
    """Yield rows of generated games, cycling through the kinds of task."""
    for seed in range(count):
        recipe = Recipe(
            seed=seed,
            task_type=task_types[seed % len(task_types)],
            split=split,
            size=size,
            rooms=rooms,
        )
        script = generate(recipe)
        name = "-".join([split, rooms, size, recipe.task_type, str(seed)])
        yield {"id": name, "recipe": asdict(recipe), **_public(script.problem.goal, script.task)}


def official_rows(
    data: str, *, split: OfficialSplit, task_types: Sequence[TaskType], goal_text: GoalText
) -> Iterator[Row]:
    """Yield rows of the benchmark's games of some kinds."""
    for game in official_games(data, split):
        goal = read_problem(game.pddl, game.file, game.line).goal
        if goal.task_type in task_types:
            yield _official_row(game, goal, goal_text)


def load_script(fields: Mapping[str, Any]) -> Script:
    """Return the script of a row's game."""
    if "recipe" in fields:
        return generate(Recipe(**fields["recipe"]))
    if "file" in fields:
        return official_script(fields["file"], fields.get("line"), fields["goal"])
    raise ConfigError(
        "a task of alfworld needs `recipe` (a generated game) or `file` (one of the benchmark's), "
        f"and this one has: {', '.join(fields) or 'nothing'}. Take rows from the kit's tasks()"
    )


def require_file_in_data(fields: Mapping[str, Any], data: str | None) -> None:
    """Raise ConfigError if a row names a file outside the folder of games.

    An environment server gets rows from its clients, who must not read its other files.
    """
    file = fields.get("file")
    if "recipe" in fields or file is None:
        return
    if data is None:
        raise ConfigError(
            "this task's game is in a file, and the environment was made without a folder of "
            "games: give the option `data`"
        )
    path, folder = Path(str(file)), data_folder(data)
    # Links are not resolved: the folder may hold links to elsewhere.
    if ".." in path.parts or not path.absolute().is_relative_to(folder.absolute()):
        raise ConfigError("this task's file is outside the folder of games, the option `data`")


def load_game(fields: Mapping[str, Any]) -> Game:
    """Return a row's game ready to play, made once for all chains of a group."""
    needed = {name: fields[name] for name in _NEEDED if name in fields}
    return _game(json.dumps(needed, sort_keys=True))


@lru_cache(maxsize=256)
def _game(row: str) -> Game:
    return Game.of(load_script(json.loads(row)))


_NEEDED = ("recipe", "file", "line", "goal")


def row_goal(fields: Mapping[str, Any]) -> Goal:
    """Return the goal in the public fields of a row."""
    return Goal(**{name: fields[name] for name in ("task_type", "item", "receptacle", "lamp")})


def _official_row(game: OfficialGame, goal: Goal, goal_text: GoalText) -> Row:
    words = game.words(goal_text)
    return {"id": game.id, "file": game.file, "line": game.line, **_public(goal, words)}


def _public(goal: Goal, words: str) -> dict[str, str]:
    return {"goal": words, **asdict(goal)}
