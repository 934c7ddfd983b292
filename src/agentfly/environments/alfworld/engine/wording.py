"""The texts that the player reads, word for word as in the benchmark's grammar."""

from collections.abc import Callable, Iterable, Sequence

from agentfly.environments.alfworld.engine.game import State, World

NOTHING_HAPPENS = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-\n\n"
TASK = "Your task is to: "
HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


def join_names(names: Sequence[str]) -> str:
    """Join names into a list in words.

    >>> join_names([]), join_names(["a mug 1"]), join_names(["a mug 1", "a pen 2"])
    ('nothing', 'a mug 1', 'a mug 1, and a pen 2')
    """
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def introduction(world: World, state: State, task: str) -> str:
    """Return the text before the first command."""
    if world.at_place[state.place]:
        seen = surroundings(world, state)
    else:
        seen = _in_the_middle([f"a {receptacle.name}" for receptacle in world.receptacles])
    return f"{WELCOME}{seen}\n\n{TASK}{task}"


def surroundings(world: World, state: State) -> str:
    """Return the answer to `look`."""
    here = world.at_place[state.place]
    if not here:
        # The grammar lists the receptacles at this place; the middle of a room has none.
        return _in_the_middle([])
    facing = join_names([world.receptacles[number].name for number in here])
    nearby = [
        f"a {world.items[thing].name}"
        for thing, place in sorted(state.lying)
        if place == state.place
        for receptacle in here
        if (thing, receptacle) in state.left
    ]
    return f"You are facing the {facing}. Next to it, you see {join_names(nearby)}."


def contents(world: World, state: State, number: int) -> str:
    """Return the text about the contents of a receptacle."""
    receptacle = world.receptacles[number]
    if receptacle.openable and number not in state.opened:
        return f"The {receptacle.name} is closed."
    seen = join_names(_with_articles(world, state.inside[number]))
    if receptacle.openable:
        return f"The {receptacle.name} is open. In it, you see {seen}."
    return f"On the {receptacle.name}, you see {seen}."


def inventory(world: World, state: State) -> str:
    """Return the answer to `inventory`."""
    if state.held is None:
        return "You are not carrying anything."
    return f"You are carrying: a {world.items[state.held].name}."


def description(world: World, state: State, thing: int) -> str:
    """Return the description of a held object."""
    item = world.items[thing]
    if "isreceptacleobject" in item.abilities:
        seen = join_names(_with_articles(world, item.contents))
        return f"This is a normal {item.name}. In it, you see {seen}."
    for holds, words in _CONDITIONS:
        if holds(state, thing):
            return words.format(item.name)
    return f"There's nothing special about {item.name}."


_Condition = Callable[[State, int], bool]


def _is(*marks: str) -> _Condition:
    return lambda state, thing: all(thing in getattr(state, mark) for mark in marks)


_CONDITIONS: tuple[tuple[_Condition, str], ...] = (
    (_is("clean", "hot", "sliced"), "This is a hot and clean sliced {}."),
    (_is("clean", "cool", "sliced"), "This is a cool and clean sliced {}."),
    (_is("clean", "sliced"), "This is a clean sliced {}."),
    (_is("hot", "sliced"), "This is a hot sliced {}."),
    (_is("cool", "sliced"), "This is a cool sliced {}."),
    (_is("clean", "hot"), "This is a hot and clean {}."),
    (_is("clean", "cool"), "This is a cool and clean {}."),
    (_is("hot"), "This is a hot {}."),
    (_is("clean"), "This is a clean {}."),
    (_is("cool"), "This is a cold {}."),
    (_is("toggled"), "This {} is on."),
    (_is("sliced"), "This is a sliced {}."),
)
"""Descriptions by condition; the first that holds is used."""


def _in_the_middle(seen: Sequence[str]) -> str:
    return (
        f"You are in the middle of a room. Looking quickly around you, you see {join_names(seen)}."
    )


def _with_articles(world: World, things: Iterable[int]) -> list[str]:
    return [f"a {world.items[thing].name}" for thing in things]
