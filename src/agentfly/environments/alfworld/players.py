"""Scripted players.

The expert uses only what it is shown. It looks first where an object is likely to be, and remembers
what else it sees, so that it needs no second look. Gold and random use the game's state. Each is a
generator of commands.
"""

import re
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

from agentfly.environments.alfworld.engine.fast import FastEngine
from agentfly.environments.alfworld.engine.goal import APPLIANCES, Goal
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.engine.wording import NOTHING_HAPPENS
from agentfly.environments.alfworld.household import OPENABLE, RECEPTACLES_FOR
from agentfly.environments.alfworld.tasks import load_game, row_goal
from agentfly.environments.command_player import Commands, follow
from agentfly.environments.player import Scene

Answer = Generator[str, str, str | None]
"""Commands that lead to the name of what was found."""

NOISE, MORE_NOISE = 0.15, 0.5
"""Probability that the noisy player gives an impossible command before the expert's next one, and
that it then gives another one: models that are stuck are so for several turns."""

_SEEN = re.compile(r"you see (.*?)\.")
_NAME = re.compile(r"\ba (\w+ \d+)")


def expert(scene: Scene) -> Commands:
    """Search for the object, take it, treat it and bring it, by observations alone."""
    player = _Searcher(goal=row_goal(scene.task.fields), receptacles=_names(scene.observation))
    if player.goal.lamp:
        yield from player.look_under_lamp()
    else:
        yield from player.bring()


@dataclass(slots=True)
class _Searcher:
    goal: Goal
    receptacles: list[str]
    contents: dict[str, list[str]] = field(default_factory=dict)
    """Objects seen in each receptacle that was looked into."""
    here: str = ""

    def look_under_lamp(self) -> Commands:
        """Take the object, then find a lamp and switch it on."""
        if (yield from self.fetch(self.goal.item)) is None:
            return
        stand = yield from self.find(self.goal.lamp)
        if stand is not None:
            yield from self.go(stand)
            lamp = next(n for n in self.contents[stand] if _kind(n) == self.goal.lamp)
            yield from self.act(f"use {lamp}")

    def bring(self) -> Commands:
        """Find as many objects as the goal asks for and bring each to the same receptacle."""
        target = self.first(self.goal.receptacle)
        # Objects that are there already count, unless they have to be treated first.
        done = target if self.goal.treatment is None else None
        for _ in range(self.goal.count):
            item = yield from self.fetch(self.goal.item, but_not_from=done)
            if item is None or target is None:
                return
            yield from self.treat(item)
            yield from self.go(target)
            yield from self.open(target)
            yield from self.act(f"move {item} to {target}")
            self.contents[target].append(item)

    def treat(self, item: str) -> Commands:
        """Clean, heat or cool an object, if the goal asks for it."""
        treatment = self.goal.treatment
        appliance = self.first(APPLIANCES[treatment]) if treatment else None
        if appliance is not None:
            yield from self.go(appliance)
            yield from self.act(f"{treatment} {item} with {appliance}")

    def first(self, kind: str) -> str | None:
        """Return the first receptacle of a kind."""
        return next((name for name in self.receptacles if _kind(name) == kind), None)

    def fetch(self, kind: str, but_not_from: str | None = None) -> Answer:
        """Find an object and take it; return its name."""
        place = yield from self.find(kind, but_not_from)
        if place is None:
            return None
        yield from self.go(place)
        yield from self.open(place)
        item = next(name for name in self.contents[place] if _kind(name) == kind)
        yield from self.act(f"take {item} from {place}")
        self.contents[place].remove(item)
        return item

    def find(self, kind: str, but_not_in: str | None = None) -> Answer:
        """Search until an object of this kind is seen; return its receptacle."""
        while True:
            for place, things in self.contents.items():
                if place != but_not_in and any(_kind(name) == kind for name in things):
                    return place
            unseen = [name for name in self.receptacles if name not in self.contents]
            if not unseen:
                return None
            place = max(unseen, key=lambda name: self.likelihood(name, kind))
            yield from self.go(place)
            yield from self.open(place)
            self.contents.setdefault(place, [])

    def likelihood(self, place: str, kind: str) -> float:
        """Return how likely a look finds the object, per command that it takes."""
        usual = RECEPTACLES_FOR.get(kind, ())
        likely = 1 / (1 + usual.index(_kind(place))) if _kind(place) in usual else 0.01
        alike = Counter(map(_kind, self.receptacles))[_kind(place)]
        return likely / alike / (2 if _kind(place) in OPENABLE else 1)

    def go(self, place: str) -> Commands:
        """Go to a receptacle."""
        if self.here == place:
            return
        self.here = place
        observation = yield f"go to {place}"
        if observation.startswith(NOTHING_HAPPENS):
            # It shares a place with the last receptacle, so the player is there already.
            observation = yield f"examine {place}"
        self.note(place, observation)

    def open(self, place: str) -> Commands:
        """Open a receptacle if it was found closed."""
        if place not in self.contents:
            self.note(place, (yield f"open {place}"))

    def act(self, command: str) -> Commands:
        """Perform a command whose observation is not needed."""
        yield command

    def note(self, place: str, observation: str) -> None:
        """Remember the contents of a receptacle, if they were seen."""
        if "you see" in observation and place not in self.contents:
            self.contents[place] = _names(observation)


def _names(observation: str) -> list[str]:
    """Return the names that an observation lists.

    >>> _names("On the desk 1, you see a mug 2, and a pen 1.")
    ['mug 2', 'pen 1']
    """
    seen = _SEEN.search(observation)
    return _NAME.findall(seen.group(1)) if seen else []


def _kind(name: str) -> str:
    return name.partition(" ")[0]


def gold(scene: Scene) -> Commands:
    """Win with the fewest commands, found by the solver."""
    return follow(solve(load_game(scene.task.fields)) or ())


def noisy(scene: Scene) -> Commands:
    """Play as the expert, with impossible commands in between.

    They are those of models that read carelessly: to take what is not there, to go to a receptacle
    that is not in the room, or to repeat a command. They change nothing, so the expert goes on as
    if they had not been given.
    """
    engine = FastEngine(load_game(scene.task.fields))
    playing, last = expert(scene), ""
    try:
        command = next(playing)
        while True:
            likely = NOISE
            while scene.random.random() < likely:
                last = yield from _impossible(scene, engine, last)
                likely = MORE_NOISE
            engine.step(command)
            observation = yield command
            last, command = command, playing.send(observation)
    except StopIteration:
        return


def _impossible(scene: Scene, engine: FastEngine, last: str) -> Generator[str, str, str]:
    """Give a random command that can't be performed now, perhaps the last one, and return it."""
    item, places = row_goal(scene.task.fields).item, _names(scene.observation)
    possible = engine.commands()
    while True:
        place, number = scene.random.choice(places), scene.random.randint(1, 3)
        take, go = f"take {item} {number} from {place}", f"go to {_kind(place)} {number}"
        command = scene.random.choice((take, go, last))
        if command and command not in possible:
            yield command
            return command


def random(scene: Scene) -> Commands:
    """Choose among the possible commands at random, without end."""
    # A game of its own lists them, so that no turn is spent on asking.
    engine = FastEngine(load_game(scene.task.fields))
    while True:
        command = scene.random.choice(engine.commands())
        engine.step(command)
        yield command
