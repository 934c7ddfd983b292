"""Scripted players. All of them know more than a model does: none reads what it is shown.

There is no expert for 30 kinds of experiments that plays by sight alone, so the expert plays the
simulator's gold path too, on the shortest way that the simplifications allow.
"""

from collections.abc import Generator, Iterable, Iterator

from agentfly.environments.player import Say, Scene, call
from agentfly.environments.scienceworld.gold import gold_path
from agentfly.environments.scienceworld.simulator.world import World
from agentfly.environments.scienceworld.tasks import read_row

Play = Generator[Say, str, None]

TIMED = ("identify-life-stages-1", "identify-life-stages-2")
"""Things grow in these while one walks: who arrives earlier than the gold path finds less."""


def gold(scene: Scene) -> Play:
    """Play the simulator's own path, word for word."""
    for action in gold_path(*read_row(scene.task.fields)):
        yield call("act", action=action)
    yield Say("That should have been it.")


def expert(scene: Scene) -> Play:
    """Play the gold path, but teleport where that is possible."""
    task, variation, simplifications = read_row(scene.task.fields)
    path = gold_path(task, variation, simplifications)
    short = task not in TIMED and can_teleport(simplifications)
    for action in shorten_path(path) if short else path:
        yield call("act", action=action)
    yield Say("That should have been it.")


def random(scene: Scene) -> Play:
    """Do anything that is valid, for ever."""
    # It keeps a world of its own to know what is, so that it needs no turn to ask.
    world = World()
    try:
        world.load(*read_row(scene.task.fields))
        while True:
            action = scene.random.choice(world.valid_actions())
            world.step(action)
            yield call("act", action=action)
    finally:
        world.close()


def can_teleport(simplifications: str) -> bool:
    """Tell whether a world with these simplifications has that action."""
    return bool({"easy", "teleportAction"} & set(simplifications.split(",")))


def shorten_path(path: Iterable[str]) -> Iterator[str]:
    """Leave out doors, looks and rooms that are only passed through.

    >>> path = ["open door to hall", "go to hall", "go to lab", "look around", "eat pea"]
    >>> list(shorten_path(path))
    ['teleport to lab', 'eat pea']
    """
    target: str | None = None
    for action in path:
        if action.startswith("go to "):
            target = action.removeprefix("go to ")
        elif action != "look around" and not action.startswith("open door to "):
            if target is not None:
                yield f"teleport to {target}"
                target = None
            yield action
