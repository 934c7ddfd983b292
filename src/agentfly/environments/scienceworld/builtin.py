"""ScienceWorld as an entry of the catalog."""

from functools import partial
from typing import Any, Literal

from pydantic import Field, field_validator

from agentfly.config import Settings
from agentfly.environments.kit import EnvironmentDefinition, Kit
from agentfly.environments.scienceworld.environment import ScienceWorld, Shown
from agentfly.environments.scienceworld.players import expert, gold, random
from agentfly.environments.scienceworld.simulator import java
from agentfly.environments.scienceworld.tasks import (
    VARIATIONS,
    Simplification,
    Split,
    look_up_task,
    require_solvable,
    rows,
)
from agentfly.rewards import reward
from agentfly.tools import tool
from agentfly.types import EnvSpec, Step, Trajectory


def final_score(trajectory: Trajectory, env: ScienceWorld) -> dict[str, Any]:
    """The score at the end as a share of 100; turn by turn what each turn changed of it."""
    return {
        "reward": env.score / 100,
        "score": env.score,
        "won": float(env.score == 100),
        "per_turn": [turn.reward or 0.0 for turn in trajectory.turns],
    }


MAX_LISTED = 40
"""How many valid actions an answer names: there are often a thousand."""


def act(action: str, env: ScienceWorld) -> Step:
    """Do one thing and see what happens.

    Args:
        action: Such as: look around, look at X, inventory, task, go to X, teleport to X, open X,
            pick up X, put down X, move X to Y, pour X in Y, use X on Y, connect X to Y,
            activate X, read X, mix X, eat X, wait, focus on X. Focus only on what the task names.
        env: The chain's own world.
    """
    return env.step(action)


def things(env: ScienceWorld) -> str:
    """List the kinds of actions, and the things that are here."""
    return env.things()


def valid(about: str, env: ScienceWorld) -> str:
    """List the actions that would do something now. This is slow.

    Args:
        about: A word that the actions must contain, such as the name of a thing.
        env: The chain's own world.
    """
    found = [action for action in env.valid_actions() if about in action]
    more = len(found) - MAX_LISTED
    listed = ", ".join(found[:MAX_LISTED]) or f"No valid action contains {about!r}."
    return f"{listed} and {more} more" if more > 0 else listed


SYSTEM_PROMPT = (
    "You are in a house and have a task. Act step by step, one action at a time. Focus on a thing "
    "only when the task asks for it: a wrong focus ends the task."
)
TOOL_SECONDS = 900.0
"""Longer than an action and the loads of others in the same JVM may take: what hangs has to end as
a failure of the environment, not as an observation."""


class ScienceWorldOptions(Settings):
    """Which tasks are played, and what of them is shown."""

    tasks: tuple[str, ...] = Field(default=tuple(VARIATIONS), min_length=1)
    """Which of the 30 tasks. The easiest is find-non-living-thing."""
    simplifications: tuple[Simplification, ...] = ()
    """What makes them easier: `easy` is teleporting, open doors and containers, and flower pots
    that water themselves."""
    eval_split: Literal["dev", "test"] = "dev"
    """Which variations are held out."""
    variations: int | None = Field(default=None, ge=1)
    """At most so many of each task, for training and for evaluation; all by default."""
    show: tuple[Shown, ...] = ()
    """What every observation ends with: `look`, `inventory`, `task`, and `actions` for all valid
    actions, which is long and slow."""
    helpers: bool = True
    """Whether there are tools that list things and valid actions beside the one that acts."""
    penalty: bool = False
    """Whether a wrong focus is worth -1, as the simulator counts, instead of 0."""
    max_moves: int = Field(default=100, ge=1)
    """After so many actions that take time, a task is over."""
    max_turns: int = Field(default=100, ge=1)
    """How many turns a task may take, those without a move included."""

    @field_validator("tasks")
    @classmethod
    def _known(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(look_up_task, tasks)))


def make_scienceworld(options: ScienceWorldOptions) -> Kit:
    """Make everything for one choice of options."""
    require_solvable(options.tasks, options.simplifications)
    chosen = (
        ("show", options.show),
        ("max_moves", options.max_moves),
        ("penalty", options.penalty),
    )
    spec = EnvSpec(ScienceWorld, chosen)
    functions = (act, things, valid) if options.helpers else (act,)
    chosen_rows = partial(_rows, options)
    return Kit(
        tasks=partial(chosen_rows, "train"),
        eval_tasks=partial(chosen_rows, options.eval_split),
        tools=tuple(tool(function, env=spec, timeout=TOOL_SECONDS) for function in functions),
        reward=reward(env=spec, range=(-1 if options.penalty else 0, 1))(final_score),
        environment=spec,
        system_prompt=SYSTEM_PROMPT,
        max_turns=options.max_turns,
        expert=expert,
        gold=gold,
        random=random,
    )


def _rows(options: ScienceWorldOptions, split: Split) -> list[dict[str, object]]:
    chosen = rows(options.tasks, split, options.simplifications, options.variations)
    return [dict(row) for row in chosen]


SCIENCEWORLD = EnvironmentDefinition(
    name="scienceworld",
    summary="30 kinds of school experiments in a house of text, by the benchmark's own simulator",
    options=ScienceWorldOptions,
    make=make_scienceworld,
    requires=java.missing_requirements,
)
