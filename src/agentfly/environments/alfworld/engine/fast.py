"""The fast engine: the benchmark's games as a small state machine.

An action is a function of the world and the state. It changes the state and returns the text that
the player reads.
"""

from collections.abc import Callable, Iterator
from functools import partial

from agentfly.environments.alfworld.engine import wording
from agentfly.environments.alfworld.engine.game import Game, State, World
from agentfly.environments.alfworld.engine.goal_progress import is_won
from agentfly.environments.alfworld.engine.wording import NOTHING_HAPPENS, introduction

Action = Callable[[World, State], str]

_KNIVES = ("knife", "butterknife")


def actions_here(world: World, state: State) -> dict[str, Action]:
    """Return the possible actions at the current place, by command."""
    here = world.at_place[state.place]
    possible: dict[str, Action] = {
        "help": lambda world, state: wording.HELP,
        "inventory": wording.inventory,
        "look": wording.surroundings,
    }
    for number in here:
        possible.update(_with_receptacle(world, state, number))
    if state.held is not None:
        name = world.items[state.held].name
        possible[f"examine {name}"] = partial(_examine_thing, thing=state.held)
        possible.update(_slicing(world, state, state.held))
    return possible


def go_to(world: World, state: State, number: int) -> str:
    """Go to a receptacle."""
    receptacle = world.receptacles[number]
    state.place = receptacle.place
    return f"You arrive at {receptacle.name}. {wording.contents(world, state, number)}"


def _with_receptacle(world: World, state: State, number: int) -> Iterator[tuple[str, Action]]:
    receptacle = world.receptacles[number]
    name = receptacle.name
    yield f"examine {name}", partial(wording.contents, number=number)
    if receptacle.openable and number not in state.opened:
        yield f"open {name}", partial(_open, number=number)
    else:
        yield from _reaching_into(world, state, number)
    if receptacle.openable and number in state.opened:
        yield f"close {name}", partial(_close, number=number)
    for thing in state.inside[number]:
        if "toggleable" in world.items[thing].abilities:
            yield f"use {world.items[thing].name}", partial(_use, thing=thing)
    if state.held is not None:
        yield from _treating(world, state.held, number)


def _reaching_into(world: World, state: State, number: int) -> Iterator[tuple[str, Action]]:
    receptacle = world.receptacles[number]
    if state.held is None:
        for thing in state.inside[number]:
            item = world.items[thing]
            if "pickupable" in item.abilities:
                take = partial(_take, thing=thing, number=number)
                yield f"take {item.name} from {receptacle.name}", take
    elif world.items[state.held].kind in receptacle.takes:
        item = world.items[state.held]
        move = partial(_move, thing=state.held, number=number)
        yield f"move {item.name} to {receptacle.name}", move


def _treating(world: World, held: int, number: int) -> Iterator[tuple[str, Action]]:
    item, receptacle = world.items[held], world.receptacles[number]
    ability, verb, treat = _TREATMENTS.get(receptacle.kind, ("", "", None))
    if treat is not None and ability in item.abilities:
        yield (
            f"{verb} {item.name} with {receptacle.name}",
            partial(treat, thing=held, number=number),
        )


def _slicing(world: World, state: State, knife: int) -> Iterator[tuple[str, Action]]:
    if world.items[knife].kind not in _KNIVES:
        return
    for thing, place in state.lying:
        if place == state.place and "sliceable" in world.items[thing].abilities:
            command = f"slice {world.items[thing].name} with {world.items[knife].name}"
            yield command, partial(_slice, thing=thing, knife=knife)


def _examine_thing(world: World, state: State, thing: int) -> str:
    return wording.description(world, state, thing)


def _open(world: World, state: State, number: int) -> str:
    state.opened.add(number)
    name = world.receptacles[number].name
    return f"You open the {name}. {wording.contents(world, state, number)}"


def _close(world: World, state: State, number: int) -> str:
    state.opened.remove(number)
    return f"You close the {world.receptacles[number].name}."


def _take(world: World, state: State, thing: int, number: int) -> str:
    state.held = thing
    state.inside[number] = tuple(other for other in state.inside[number] if other != thing)
    state.left.add((thing, number))
    state.lying.discard((thing, state.place))
    return f"You pick up the {world.items[thing].name} from the {world.receptacles[number].name}."


def _move(world: World, state: State, thing: int, number: int) -> str:
    state.held = None
    state.inside[number] = tuple(sorted({*state.inside[number], thing}))
    state.left.discard((thing, number))
    state.lying.add((thing, state.place))
    return f"You move the {world.items[thing].name} to the {world.receptacles[number].name}."


def _use(world: World, state: State, thing: int) -> str:
    state.toggled.add(thing)
    return f"You turn on the {world.items[thing].name}."


def _clean(world: World, state: State, thing: int, number: int) -> str:
    state.clean.add(thing)
    return f"You clean the {world.items[thing].name} using the {world.receptacles[number].name}."


def _heat(world: World, state: State, thing: int, number: int) -> str:
    state.hot.add(thing)
    state.cool.discard(thing)
    return f"You heat the {world.items[thing].name} using the {world.receptacles[number].name}."


def _cool(world: World, state: State, thing: int, number: int) -> str:
    state.cool.add(thing)
    state.hot.discard(thing)
    return f"You cool the {world.items[thing].name} using the {world.receptacles[number].name}."


def _slice(world: World, state: State, thing: int, knife: int) -> str:
    state.sliced.add(thing)
    return f"You sliced the {world.items[thing].name} with the {world.items[knife].name}."


_TREATMENTS: dict[str, tuple[str, str, Callable[..., str]]] = {
    "sinkbasin": ("cleanable", "clean", _clean),
    "microwave": ("heatable", "heat", _heat),
    "fridge": ("coolable", "cool", _cool),
}
"""Needed ability, verb and action of the treatment at each kind of receptacle."""


class FastEngine:
    """An engine with the same texts as TextWorld, byte for byte, in microseconds per step."""

    __slots__ = ("_actions", "game", "state")

    def __init__(self, game: Game, state: State | None = None) -> None:
        self.game = game
        self.state = state or game.first_state.clone()
        self._actions: dict[str, Action] | None = None

    def start(self) -> str:
        """Restart the game, and return its first text."""
        self.state = self.game.first_state.clone()
        self._actions = None
        return introduction(self.game.world, self.state, self.game.task)

    def step(self, command: str) -> str:
        """Perform a command, and return its text."""
        world, command = self.game.world, command.strip()
        receptacle = world.go_commands.get(command)
        action = self._here().get(command) if receptacle is None else self._going(receptacle)
        if action is None:
            return NOTHING_HAPPENS
        self._actions = None
        return action(world, self.state)

    def try_step(self, command: str) -> bool:
        """Perform a command; return whether it was possible."""
        return self.step(command) != NOTHING_HAPPENS

    def commands(self) -> list[str]:
        """Return the possible commands in alphabetical order."""
        go_commands = self.game.world.go_commands.items()
        away = [command for command, receptacle in go_commands if self._going(receptacle)]
        return sorted([*away, *self._here()])

    @property
    def won(self) -> bool:
        """Whether the goal is reached."""
        return is_won(self.game.world, self.state)

    def clone(self) -> "FastEngine":
        """Return an independent copy."""
        return FastEngine(self.game, self.state.clone())

    def _going(self, receptacle: int) -> Action | None:
        """Return the action that goes to a receptacle; None if the player is there already."""
        if self.game.world.receptacles[receptacle].place == self.state.place:
            return None
        return partial(go_to, number=receptacle)

    def _here(self) -> dict[str, Action]:
        if self._actions is None:
            self._actions = actions_here(self.game.world, self.state)
        return self._actions
