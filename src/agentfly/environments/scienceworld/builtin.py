"""ScienceWorld as a built-in environment: its definition, tools and reward."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from agentfly.environments.command_player import Actions, in_text, in_tool_calls
from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, EnvironmentOptions, Kit
from agentfly.environments.scienceworld.environment import ScienceWorld, Shown
from agentfly.environments.scienceworld.players import expert, gold, random
from agentfly.environments.scienceworld.simulator import java
from agentfly.environments.scienceworld.tasks import (
    VARIATIONS,
    Simplification,
    Split,
    require_solvable,
    require_task,
    rows,
)
from agentfly.rewards import reward
from agentfly.tools import tool
from agentfly.types import EnvSpec, Step, Trajectory

_SYSTEM_PROMPTS: dict[Actions, str] = {
    "tool": "You are in a house and have a task. Act step by step, one action at a time. Focus on "
    "a thing only when the task asks for it: a wrong focus ends the task.",
    "text": "You are in a house and have a task. Say one action at a time and nothing else, such "
    "as: look around, inventory, go to X, teleport to X, open X, pick up X, move X to Y, "
    "pour X in Y, use X on Y, focus on X. Focus on a thing only when the task asks for it: "
    "a wrong focus ends the task.",
}
TOOL_SECONDS = 900.0
"""Timeout of a tool. It is longer than an action and the loads of other chains in the same JVM can
take, so that a hang ends as a failure of the environment and not as an observation."""
MAX_LISTED = 40
"""Maximum number of valid actions in an answer: there are often a thousand."""


def final_score(trajectory: Trajectory, env: ScienceWorld) -> dict[str, Any]:
    """Return the final score as a share of 100, and the change of each turn."""
    return {
        "reward": env.score / 100,
        "score": env.score,
        "won": float(env.score == 100),
        "per_turn": [turn.reward or 0.0 for turn in trajectory.turns],
    }


def solved(env: ScienceWorld) -> dict[str, float]:
    """Return 1 for a score of 100, else 0; -1 where a wrong focus left less than 0 points."""
    won = float(env.score == 100)
    return {"reward": -1.0 if env.score < 0 else won, "score": env.score, "won": won}


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


class ScienceWorldOptions(EnvironmentOptions):
    """Tasks, observations and limits of ScienceWorld."""

    tasks: tuple[str, ...] = Field(default=tuple(VARIATIONS), min_length=1)
    """Which of the 30 tasks to use. The easiest is find-non-living-thing."""
    simplifications: tuple[Simplification, ...] = ()
    """Simplifications of the tasks: `easy` is teleporting, open doors, self-watering flower pots,
    and no electrical actions in tasks that need none."""
    eval_split: Literal["dev", "test"] = "dev"
    """Which variations are held out."""
    variations: int | None = Field(default=None, ge=1)
    """Maximum number of variations of each task; default all."""
    eval_variations: int | None = Field(default=None, ge=1)
    """Maximum number of held-out variations of each task; default as `variations`."""
    actions: Actions = "tool"
    """Calls of one tool `act`, or actions in plain text."""
    show: tuple[Shown, ...] = ()
    """Additions at the end of every observation: `look`, `room` (as `look`, only where an action
    leads to another room), `inventory`, `task`, and `actions` for all valid actions, which is long
    and slow."""
    helpers: bool = True
    """Whether to add tools that list objects and valid actions; not for actions in text."""
    partial_credit: bool = True
    """Whether the points of an unsolved task are rewarded; otherwise only a solved one is, with 1.
    With points, never focusing is worth more than focusing on the wrong thing."""
    penalty: bool = False
    """Whether a wrong focus gives a reward of -1, as in the simulator, instead of 0."""
    max_moves: int = Field(default=100, ge=1)
    """Maximum number of actions that take time."""
    max_turns: int = Field(default=100, ge=1)
    """Maximum number of turns, including those without a move."""

    @field_validator("tasks")
    @classmethod
    def _known(cls, tasks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(require_task, tasks)))

    @model_validator(mode="after")
    def _check_effects(self) -> "ScienceWorldOptions":
        self.refuse_without_effect(
            (self.actions == "tool", ("helpers",), 'for calls of tools, with actions = "tool"')
        )
        return self


def make_scienceworld(options: ScienceWorldOptions) -> Kit:
    """Make the kit for one choice of options."""
    require_solvable(options.tasks, options.simplifications)
    chosen = (
        ("show", options.show),
        ("max_moves", options.max_moves),
        ("penalty", options.penalty),
    )
    spec = EnvSpec(ScienceWorld, chosen)
    as_text = options.actions == "text"
    player = (
        partial(in_text, idle="look around")
        if as_text
        else partial(in_tool_calls, argument="action")
    )
    eval_variations = options.eval_variations or options.variations
    return Kit(
        tasks=partial(_rows, options, "train", options.variations),
        eval_tasks=partial(_rows, options, options.eval_split, eval_variations),
        tools=tuple(tool(one, env=spec, timeout=TOOL_SECONDS) for one in _functions(options)),
        reward=reward(env=spec, range=(-1 if options.penalty else 0, 1))(
            final_score if options.partial_credit else solved
        ),
        environment=spec,
        system_prompt=_SYSTEM_PROMPTS[options.actions],
        max_turns=options.max_turns,
        expert=player(expert),
        gold=player(gold),
        random=player(random),
    )


def _functions(options: ScienceWorldOptions) -> tuple[Callable[..., Any], ...]:
    """Return the functions that are tools: none for actions in text."""
    if options.actions == "text":
        return ()
    return (act, things, valid) if options.helpers else (act,)


def _rows(
    options: ScienceWorldOptions, split: Split, variations: int | None
) -> list[dict[str, object]]:
    chosen = rows(options.tasks, split, options.simplifications, variations)
    return [dict(row) for row in chosen]


SCIENCEWORLD = EnvironmentDefinition(
    name="scienceworld",
    summary=INDEX["scienceworld"].summary,
    options=ScienceWorldOptions,
    make=make_scienceworld,
    requires=java.missing_requirements,
)
