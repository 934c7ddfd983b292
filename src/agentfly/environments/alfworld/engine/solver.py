"""The shortest solution of a game, found with full knowledge of its state."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.goal import APPLIANCES


@dataclass(frozen=True, slots=True)
class Subtask:
    """One step of a plan, at one receptacle."""

    verb: str
    """Verb of the command. `take` and `move` need an open receptacle; the others don't."""
    thing: int
    receptacle: int

    def words(self, game: Game) -> str:
        """Return the command."""
        item = game.world.items[self.thing].name
        receptacle = game.world.receptacles[self.receptacle].name
        if self.verb == "use":
            return f"use {item}"
        return f"{self.verb} {item} {_PREPOSITIONS.get(self.verb, 'with')} {receptacle}"


_PREPOSITIONS = {"take": "from", "move": "to"}


def solve(game: Game) -> list[str] | None:
    """Return a shortest list of commands that wins a game; None if it can't be won.

    All choices of objects, appliance and receptacle are tried.
    """
    if FastEngine(game).won:
        return []
    tried = (_commands(game, subtasks) for subtasks in _plans(game))
    return min((commands for commands in tried if commands), key=len, default=None)


def _plans(game: Game) -> Iterator[tuple[Subtask, ...]]:
    world, goal = game.world, game.world.goal
    fetches = list(_fetches(game))
    if goal.lamp:
        for fetch, (lamp, receptacle) in product(fetches, _where_is(game, goal.lamp)):
            yield fetch, Subtask("use", lamp, receptacle)
        return
    targets = [n for n, r in enumerate(world.receptacles) if r.kind == goal.receptacle]
    if goal.treatment is None:
        for target in targets:
            yield from _collections(game, fetches, target)
        return
    kind = APPLIANCES[goal.treatment]
    appliances = [n for n, r in enumerate(world.receptacles) if r.kind == kind]
    for fetch, appliance, target in product(fetches, appliances, targets):
        treat = Subtask(goal.treatment, fetch.thing, appliance)
        deliver = Subtask("move", fetch.thing, target)
        yield fetch, treat, deliver
        yield fetch, deliver


def _collections(game: Game, fetches: list[Subtask], target: int) -> Iterator[tuple[Subtask, ...]]:
    """Yield plans that bring the missing objects, in every order."""
    goal, items = game.world.goal, game.world.items
    present = {t for t in game.first_state.inside[target] if items[t].kind == goal.item}
    absent = [fetch for fetch in fetches if fetch.thing not in present]
    for chosen in permutations(absent, goal.count - len(present)):
        yield tuple(e for fetch in chosen for e in (fetch, Subtask("move", fetch.thing, target)))


def _fetches(game: Game) -> Iterator[Subtask]:
    for thing, receptacle in _where_is(game, game.world.goal.item):
        yield Subtask("take", thing, receptacle)


def _where_is(game: Game, kind: str) -> Iterator[tuple[int, int]]:
    for number, things in enumerate(game.first_state.inside):
        for thing in things:
            if game.world.items[thing].kind == kind:
                yield thing, number


def _commands(game: Game, subtasks: tuple[Subtask, ...]) -> list[str] | None:
    """Return the commands of a plan; None if one is impossible or they don't win."""
    engine = FastEngine(game)
    commands: list[str] = []
    for subtask in subtasks:
        for command in _preparations(engine, subtask):
            engine.step(command)
            commands.append(command)
        if not engine.try_step(subtask.words(game)):
            return None
        commands.append(subtask.words(game))
        if engine.won:
            return commands
    return None


def _preparations(engine: FastEngine, subtask: Subtask) -> Iterator[str]:
    """Yield the commands that go to a receptacle and open it, if needed."""
    receptacle = engine.game.world.receptacles[subtask.receptacle]
    if receptacle.place != engine.state.place:
        yield f"go to {receptacle.name}"
    if (
        subtask.verb in _PREPOSITIONS
        and receptacle.openable
        and subtask.receptacle not in engine.state.opened
    ):
        yield f"open {receptacle.name}"
