"""Players that know the game: one goes straight to the goal, one does anything that is possible."""

from collections.abc import Generator

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.solution import solve
from agentfly.environments.alfworld.source.rows import game_of
from agentfly.environments.player import Say, Scene, call


def gold(scene: Scene) -> Generator[Say, str, None]:
    """Win in as few commands as can be."""
    for command in solve(game_of(scene.task.fields)) or ():
        yield call("act", command=command)
    yield Say("This game can't be won.")


def random(scene: Scene) -> Generator[Say, str, None]:
    """Give any of the commands that are possible, for ever."""
    # It keeps a game of its own to know them, so that it needs no turn to ask.
    engine = FastEngine(game_of(scene.task.fields))
    while True:
        command = scene.random.choice(engine.commands())
        engine.step(command)
        yield call("act", command=command)
