"""How far a game is: whether its goal is reached, and which share of the way is done."""

from agentfly.environments.alfworld.engine.game import State, World
from agentfly.environments.alfworld.engine.goal import Goal, Treatment

_MARKS: dict[Treatment, tuple[str, str]] = {
    "clean": ("cleanable", "clean"),
    "heat": ("heatable", "hot"),
    "cool": ("coolable", "cool"),
}
"""What a thing must be by nature, and by what was done to it."""


def is_won(world: World, state: State) -> bool:
    """Tell whether the goal is reached."""
    goal = world.goal
    if goal.lamp:
        return _holds_wanted(world, state) and _lamp_is_on(world, state, here=True)
    return _most_placed(world, state, goal) >= goal.count


def progress(world: World, state: State) -> float:
    """Return the share of the way that is done: 1 if and only if the goal is reached.

    Counted is: to hold the thing, to treat it, to bring it; or to light the lamp and to stand by
    it. What is undone again no longer counts.
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
    """Tell whether a lamp of the goal's kind was switched on, and is at hand if so asked."""
    on = {thing for thing in state.toggled if world.items[thing].kind == world.goal.lamp}
    if not here:
        return bool(on)
    return any(on.intersection(state.inside[r]) for r in world.at_place[state.place])


def _most_placed(world: World, state: State, goal: Goal) -> int:
    """Count the things that are as they should be in the one receptacle that has most of them."""
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
