"""How a game is won by somebody who knows where everything is."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import Treatment

APPLIANCES: dict[Treatment, str] = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Where each treatment is done."""


@dataclass(frozen=True, slots=True)
class Errand:
    """Something to be done at one receptacle."""

    verb: str
    """`take` and `move` reach into the receptacle; `clean`, `heat`, `cool` and `use` don't."""
    thing: int
    receptacle: int

    def words(self, game: Game) -> str:
        """Write the command."""
        item = game.world.items[self.thing].name
        receptacle = game.world.receptacles[self.receptacle].name
        if self.verb == "use":
            return f"use {item}"
        return f"{self.verb} {item} {_PREPOSITIONS.get(self.verb, 'with')} {receptacle}"


_PREPOSITIONS = {"take": "from", "move": "to"}


def solve(game: Game) -> list[str] | None:
    """Return a shortest list of commands that wins a game; None if it can't be won.

    All ways to choose the things, the appliance and the receptacle are tried.
    """
    if FastEngine(game).won:
        return []
    tried = (_commands(game, errands) for errands in _ways(game))
    return min((commands for commands in tried if commands), key=len, default=None)


def _ways(game: Game) -> Iterator[tuple[Errand, ...]]:
    world, goal = game.world, game.world.goal
    fetches = list(_fetches(game))
    if goal.lamp:
        for fetch, (lamp, receptacle) in product(fetches, _where_is(game, goal.lamp)):
            yield fetch, Errand("use", lamp, receptacle)
        return
    targets = [n for n, r in enumerate(world.receptacles) if r.kind == goal.receptacle]
    if goal.treatment is None:
        for target in targets:
            yield from _collections(game, fetches, target)
        return
    kind = APPLIANCES[goal.treatment]
    appliances = [n for n, r in enumerate(world.receptacles) if r.kind == kind]
    for fetch, appliance, target in product(fetches, appliances, targets):
        treat = Errand(goal.treatment, fetch.thing, appliance)
        deliver = Errand("move", fetch.thing, target)
        yield fetch, treat, deliver
        yield fetch, deliver


def _collections(game: Game, fetches: list[Errand], target: int) -> Iterator[tuple[Errand, ...]]:
    """Bring as many things as are still missing, in every order."""
    goal, items = game.world.goal, game.world.items
    present = {t for t in game.first_state.inside[target] if items[t].kind == goal.item}
    absent = [fetch for fetch in fetches if fetch.thing not in present]
    for chosen in permutations(absent, goal.count - len(present)):
        yield tuple(e for fetch in chosen for e in (fetch, Errand("move", fetch.thing, target)))


def _fetches(game: Game) -> Iterator[Errand]:
    for thing, receptacle in _where_is(game, game.world.goal.item):
        yield Errand("take", thing, receptacle)


def _where_is(game: Game, kind: str) -> Iterator[tuple[int, int]]:
    for number, things in enumerate(game.first_state.inside):
        for thing in things:
            if game.world.items[thing].kind == kind:
                yield thing, number


def _commands(game: Game, errands: tuple[Errand, ...]) -> list[str] | None:
    """Play errands one after another; None if one is impossible or they don't win."""
    engine = FastEngine(game)
    commands: list[str] = []
    for errand in errands:
        for command in _to_do(engine, errand):
            engine.step(command)
            commands.append(command)
        if not engine.obeys(errand.words(game)):
            return None
        commands.append(errand.words(game))
        if engine.won:
            return commands
    return None


def _to_do(engine: FastEngine, errand: Errand) -> Iterator[str]:
    """Say what comes first: to go there, and to open it."""
    receptacle = engine.game.world.receptacles[errand.receptacle]
    if receptacle.place != engine.state.place:
        yield f"go to {receptacle.name}"
    if (
        errand.verb in _PREPOSITIONS
        and receptacle.openable
        and errand.receptacle not in engine.state.opened
    ):
        yield f"open {receptacle.name}"
