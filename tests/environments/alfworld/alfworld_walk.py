"""Ways through a game: random ones, in which impossible things are tried too, and busy ones."""

from random import Random

from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import APPLIANCES
from agentfly.environments.alfworld.environment import Engine

STRAY = 0.15
"""Probability that a walk tries a command that may be impossible."""
BUSY = 0.5
"""Probability that it uses an object at hand instead of any possible command."""
IDLE = ("go", "help", "look", "inventory")


def draw(random: Random, engine: Engine) -> str:
    """Draw the next command from the possible ones, or at times from all commands."""
    possible = engine.commands()
    busy = [command for command in possible if command.split()[0] not in IDLE]
    chance = random.random()
    if chance < STRAY:
        return _stray(random, engine)
    return random.choice(busy if busy and chance < STRAY + BUSY else possible)


def _stray(random: Random, engine: Engine) -> str:
    item = random.choice(engine.game.world.items).name
    other = random.choice(engine.game.world.items).name
    receptacle = random.choice(engine.game.world.receptacles).name
    return random.choice(
        [
            "",
            "fly",
            "Look",
            " inventory ",
            f"go to  {receptacle}",
            f"go to {item}",
            f"go to {receptacle}",
            f"open {receptacle}",
            f"close {receptacle}",
            f"examine {receptacle}",
            f"examine {item}",
            f"use {item}",
            f"take {item} from {receptacle}",
            f"move {item} to {receptacle}",
            f"put {item} in/on {receptacle}",
            f"heat {item} with {receptacle}",
            f"cool {item} with {receptacle}",
            f"clean {item} with {receptacle}",
            f"slice {item} with {other}",
        ]
    )


def chores(random: Random, game: Game) -> list[str]:
    """Do everything to one object, which a random walk seldom does.

    It is sliced, treated in some order and back again, and moved beside where it was; what is
    impossible in this room is tried nevertheless.
    """
    items = game.world.items
    thing = max(items, key=lambda item: (len(item.abilities), random.random())).name
    knife = next((item.name for item in items if item.kind in ("knife", "butterknife")), "knife 1")
    fetch, lay_down = _fetch(game, thing), f"move {knife} to {_home(game, knife)}"
    commands = [*_fetch(game, knife), *fetch[:2], f"slice {thing} with {knife}"]
    commands += [f"go to {_home(game, knife)}", lay_down, *fetch]
    for verb in random.choices(list(APPLIANCES), k=4):
        appliance = f"{APPLIANCES[verb]} 1"
        commands += [f"go to {appliance}", f"{verb} {thing} with {appliance}", f"examine {thing}"]
    return commands + _beside(game, thing)


def _fetch(game: Game, thing: str) -> list[str]:
    home = _home(game, thing)
    return [f"go to {home}", f"open {home}", f"take {thing} from {home}"]


def _home(game: Game, thing: str) -> str:
    """Return the first receptacle of an object; any receptacle for one that is nowhere."""
    for receptacle, inside in zip(game.world.receptacles, game.first_state.inside, strict=True):
        if thing in [game.world.items[number].name for number in inside]:
            return receptacle.name
    return game.world.receptacles[0].name


def _beside(game: Game, thing: str) -> list[str]:
    """Move an object from one receptacle to all at the same place, and look."""
    place = max(game.world.at_place.values(), key=len)
    names = [game.world.receptacles[number].name for number in place]
    commands = [f"go to {names[0]}"]
    for name in names:
        commands += [f"open {name}", f"move {thing} to {name}", "look", f"take {thing} from {name}"]
    return commands
