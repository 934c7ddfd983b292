"""The progress of a game: whether its goal is reached, and the share of it that is done."""

from agentfly.environments.alfworld.engine.game import State, World
from agentfly.environments.alfworld.engine.goal import Goal, Treatment

_MARKS: dict[Treatment, tuple[str, str]] = {
    "clean": ("cleanable", "clean"),
    "heat": ("heatable", "hot"),
    "cool": ("coolable", "cool"),
}
"""Needed ability and resulting mark of each treatment."""


def is_won(world: World, state: State) -> bool:
    """Return whether the goal is reached."""
    goal = world.goal
    if goal.lamp:
        return _holds_wanted(world, state) and _lamp_is_on(world, state, here=True)
    return _most_placed(world, state, goal) >= goal.count


def progress(world: World, state: State) -> float:
    """Return the share of the goal that is done: 1 if and only if it is reached.

    Steps that count: holding, treating and bringing the object; or lighting the lamp and standing
    next to it. A step that is undone no longer counts.
    """
    if is_won(world, state):
        return 1.0
    goal = world.goal
    holds = _holds_wanted(world, state)
    if goal.lamp:
        lit, at_hand = _lamp_is_on(world, state), _lamp_is_on(world, state, here=True)
        return (2 * holds + lit + at_hand) / 4
    if goal.treatment:
        return max((_treated_so_far(world, state, thing) for thing in _wanted(world)), default=0.0)
    return (2 * _most_placed(world, state, goal) + holds) / (2 * goal.count)


def _wanted(world: World) -> list[int]:
    return [n for n, item in enumerate(world.items) if item.kind == world.goal.item]


def _holds_wanted(world: World, state: State) -> bool:
    return state.held is not None and world.items[state.held].kind == world.goal.item


def _lamp_is_on(world: World, state: State, *, here: bool = False) -> bool:
    """Return whether a lamp of the goal's kind is on, and with `here` also at this place."""
    on = {thing for thing in state.toggled if world.items[thing].kind == world.goal.lamp}
    if not here:
        return bool(on)
    return any(on.intersection(state.inside[r]) for r in world.at_place[state.place])


def _most_placed(world: World, state: State, goal: Goal) -> int:
    """Return the largest number of correct objects in one receptacle of the goal's kind."""
    counts = [
        sum(_is_as_wanted(world, state, thing) for thing in state.inside[number])
        for number, receptacle in enumerate(world.receptacles)
        if receptacle.kind == goal.receptacle
    ]
    return max(counts, default=0)


def _is_as_wanted(world: World, state: State, thing: int) -> bool:
    item = world.items[thing]
    if item.kind != world.goal.item:
        return False
    return world.goal.treatment is None or _is_treated(world, state, thing)


def _is_treated(world: World, state: State, thing: int) -> bool:
    assert world.goal.treatment is not None
    ability, mark = _MARKS[world.goal.treatment]
    return ability in world.items[thing].abilities and thing in getattr(state, mark)


def _treated_so_far(world: World, state: State, thing: int) -> float:
    return (_is_treated(world, state, thing) + (state.held == thing)) / 3
