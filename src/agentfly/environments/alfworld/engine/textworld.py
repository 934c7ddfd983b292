"""The reference engine: TextWorld, with the domain and grammar of the package alfworld.

Its planner is a C library with one global state, so a process runs one game at a time and not in
threads: `AlfworldTextWorld` gives each chain its own process.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentfly.environments.alfworld.engine.game import Game, Index, Script, State
from agentfly.errors import ConfigError

MISSING = "TextWorld's engine needs the package alfworld: pip install 'agentfly[alfworld]'"

_UNKNOWN = "UNKNOWN GOAL."
"""Placeholder of the task in the grammar."""


def is_installed() -> bool:
    """Return whether the packages of the reference engine are installed."""
    return find_spec("alfworld") is not None and find_spec("textworld") is not None


class TextWorldEngine:
    """An engine that plays a game as the benchmark does."""

    def __init__(self, script: Script) -> None:
        self.game = Game.of(script)
        self._index = Index.of(script.problem)
        self._env = _new_environment()
        self._env.load(
            {
                "pddl_domain": _wheel_text("alfred.pddl"),
                "grammar": _wheel_text("alfred.twl2"),
                "pddl_problem": script.text or script.problem.to_pddl(),
            }
        )
        self._seen: Any = None

    def start(self) -> str:
        """Restart the game, and return its first text."""
        self._seen = self._env.reset()
        # Replaced here and not in the grammar: the grammar is then parsed once for all games, and
        # a human-written task may contain its special characters.
        return str(self._seen.feedback).replace(_UNKNOWN, self.game.task)

    def step(self, command: str) -> str:
        """Perform a command, and return its text."""
        self._seen, _, _ = self._env.step(command)
        return str(self._seen.feedback)

    def commands(self) -> list[str]:
        """Return the possible commands in alphabetical order."""
        return list(self._seen["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal is reached."""
        return bool(self._seen["won"])

    @property
    def state(self) -> State:
        """State in the form of the fast engine."""
        facts = [(fact.name, *(v.name for v in fact.arguments)) for fact in self._seen["_facts"]]
        return _state_of(facts, self._index)

    def plan(self) -> list[str]:
        """Return the planner's solution from here; empty if it finds none."""
        return list(self._env._pddl_state.replan(self._env._entity_infos))


def _state_of(facts: Iterable[tuple[str, ...]], index: Index) -> State:
    known: dict[str, list[tuple[str, ...]]] = {}
    for predicate, *things in facts:
        known.setdefault(predicate, []).append(tuple(things))
    items, receptacles, places = index.items, index.receptacles, index.places

    def marked(predicate: str) -> set[int]:
        return {items[thing] for (thing,) in known.get(predicate, ())}

    inside: list[list[int]] = [[] for _ in receptacles]
    for thing, receptacle in known.get("inreceptacle", ()):
        inside[receptacles[receptacle]].append(items[thing])
    return State(
        place=places[known["atlocation"][0][1]],
        held=next((items[thing] for _, thing in known.get("holds", ())), None),
        inside=[tuple(sorted(things)) for things in inside],
        lying={(items[o], places[p]) for o, p in known.get("objectatlocation", ())},
        left={(items[o], receptacles[r]) for o, r in known.get("not_inreceptacle", ())},
        opened={receptacles[r] for (r,) in known.get("opened", ())},
        toggled=marked("istoggled"),
        clean=marked("isclean"),
        hot=marked("ishot"),
        cool=marked("iscool"),
        sliced=marked("issliced"),
    )


def _new_environment() -> Any:
    """Make TextWorld's environment with the names of the benchmark."""
    if not is_installed():
        raise ConfigError(MISSING)
    textworld = import_module("textworld")
    pddl = import_module("textworld.envs.pddl")
    wrapper = import_module("alfworld.agents.environment.alfred_tw_env")
    _cache_repeated_work()
    infos = textworld.EnvInfos(won=True, admissible_commands=True)
    return wrapper.AlfredDemangler(pddl.PddlEnv(infos))


@lru_cache(maxsize=1)
def _cache_repeated_work() -> None:
    """Cache the repeated work that takes nine tenths of TextWorld's time.

    It translates and parses the same texts, and copies constant data. Its answers stay the same.
    """
    planner: Any = import_module("fast_downward")
    translate = lru_cache(maxsize=1)(planner.pddl2sas)

    def translate_once(domain: str, problem: str, **_: bool) -> Any:
        # Called again at every start, and for a second translation that is faster to plan on.
        return translate(domain, problem)

    planner.pddl2sas = translate_once
    textgen: Any = import_module("textworld.envs.pddl.textgen")
    parse = lru_cache(maxsize=1024)(textgen._parse_and_convert)
    # A copy, because each use writes its context into the symbols.
    textgen._parse_and_convert = lambda *args, **options: deepcopy(parse(*args, **options))
    textgen.copy_context = lambda context: {
        **context,
        "variables": dict(context["variables"]),
        "mapping": dict(context["mapping"]),
    }
    rule = import_module("textworld.logic").Rule
    rule.parse_conjunctive_query = lru_cache(maxsize=1024)(rule.parse_conjunctive_query)
    logic: Any = import_module("textworld.envs.pddl.logic")
    logic.GameLogic = lru_cache(maxsize=1)(logic.GameLogic)


@lru_cache(maxsize=2)
def _wheel_text(name: str) -> str:
    spec = find_spec("alfworld")
    assert spec is not None
    assert spec.origin is not None
    return (Path(spec.origin).parent / "data" / name).read_text()
