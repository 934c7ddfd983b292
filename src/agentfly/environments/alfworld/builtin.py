"""ALFWorld as a built-in environment: its definition, tools and rewards."""

from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from agentfly.environments.alfworld.engine import textworld
from agentfly.environments.alfworld.engine.goal import TASK_TYPES, TaskType
from agentfly.environments.alfworld.environment import Alfworld, AlfworldTextWorld
from agentfly.environments.alfworld.game_generator import Rooms, Size
from agentfly.environments.alfworld.official_games import GoalText
from agentfly.environments.alfworld.players import expert, gold, noisy, random
from agentfly.environments.alfworld.tasks import generated_rows, official_rows
from agentfly.environments.command_player import Actions, in_text, in_tool_calls
from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, EnvironmentOptions, Kit
from agentfly.errors import ConfigError
from agentfly.rewards import reward
from agentfly.tools import tool
from agentfly.types import EnvSpec, Step, Tool, Trajectory

_SYSTEM_PROMPTS: dict[Actions, str] = {
    "tool": "You are in a room and have a task. Act step by step: find the things that you need, "
    "one command at a time.",
    "text": "You are in a room and have a task. Say one command at a time and nothing else: "
    "go to X, open X, close X, take Y from X, move Y to X, clean Y with X, heat Y with X, "
    "cool Y with X, slice Y with Z, use Y, examine X, look, inventory.",
}


def success(env: Alfworld) -> dict[str, Any]:
    """Return 1 for a game that is won, else 0."""
    return {"reward": float(env.won), "won": float(env.won)}


def share_of_the_way(trajectory: Trajectory, env: Alfworld) -> dict[str, Any]:
    """Return 1 for a game that is won, else its share of progress; turns have their own rewards."""
    per_turn = [turn.reward or 0.0 for turn in trajectory.turns]
    return {"reward": env.progress, "won": float(env.won), "per_turn": per_turn}


def act(command: str, env: Alfworld) -> Step:
    """Do one thing in the room and see what happens.

    Args:
        command: One of: go to X, open X, close X, take Y from X, move Y to X, clean Y with X,
            heat Y with X, cool Y with X, slice Y with Z, use Y, examine X, look, inventory. Name
            things with their numbers, such as "take mug 1 from desk 2".
        env: The chain's own room.
    """
    return env.step(command)


def commands(env: Alfworld) -> str:
    """List all commands that are possible now."""
    return ", ".join(env.commands())


_OF_BENCHMARK = ("eval_split", "goal_text")
_OF_GENERATED = ("games", "eval_games", "size", "rooms")


class AlfworldOptions(EnvironmentOptions):
    """Games, observations and rewards of ALFWorld."""

    data: str | None = None
    """The folder of the benchmark's games, such as `$ALFWORLD_DATA`; without it games are
    generated."""
    eval_split: Literal["valid_seen", "valid_unseen"] = "valid_seen"
    """Which of the benchmark's games are held out: those in rooms of the training games, or in
    other rooms. Only with `data`."""
    goal_text: GoalText = "template"
    """Wording of the benchmark's goals: its own templates, or human annotations. Only with
    `data`."""
    task_types: tuple[TaskType, ...] = Field(default=TASK_TYPES, min_length=1)
    """Which of the six kinds of task to use."""
    games: int = Field(default=1200, ge=1)
    """Number of games to generate for training. This and the options down to `rooms` are only
    without `data`."""
    eval_games: int = Field(default=120, ge=1)
    """Number of games to generate for evaluation, in other rooms."""
    size: Size = "medium"
    """Size of a generated room: 4 to 6 receptacles, 9 to 14, or 18 to 26."""
    rooms: Rooms = "own"
    """Whether generated rooms are furnished at random, or as one of the benchmark's 120 floor plans
    (which needs the package alfworld)."""
    actions: Actions = "tool"
    """Calls of one tool `act`, or commands in plain text."""
    show_commands: bool = False
    """Whether each observation ends with the commands that are possible; otherwise a tool lists
    them, unless actions are text."""
    subgoals: bool = False
    """Whether each step is rewarded for its share of the progress, for turn-level credit, instead
    of only the whole game for being won."""
    penalty: float = Field(default=0.0, ge=0.0, le=1.0)
    """Taken off the reward of a turn whose command was impossible, for turn-level credit by
    `subgoals`. The reward of the whole game stays."""
    engine: Literal["fast", "textworld"] = "fast"
    """Engine of the games: our state machine, or TextWorld in separate processes."""
    max_turns: int = Field(default=50, ge=1)
    """Maximum number of turns of a game."""

    @model_validator(mode="after")
    def _check_effects(self) -> "AlfworldOptions":
        self.refuse_without_effect(
            (self.data is not None, _OF_BENCHMARK, "for the benchmark's own games, with `data`"),
            (self.data is None, _OF_GENERATED, "for generated games, without `data`"),
            (self.subgoals, ("penalty",), "for rewards of turns, with subgoals = true"),
        )
        return self


def make_alfworld(options: AlfworldOptions) -> Kit:
    """Make the kit for one choice of options."""
    if options.engine == "textworld" and not textworld.is_installed():
        raise ConfigError(textworld.MISSING)
    kind = Alfworld if options.engine == "fast" else AlfworldTextWorld
    shown = (("show_commands", options.show_commands), ("subgoals", options.subgoals))
    taken = (("penalty", options.penalty),) if options.penalty else ()
    read = () if options.data is None else (("data", options.data),)
    spec = EnvSpec(kind, (*shown, *taken, *read))
    as_text = options.actions == "text"
    player = (
        partial(in_text, idle="look") if as_text else partial(in_tool_calls, argument="command")
    )
    return Kit(
        tasks=partial(_rows, options, held_out=False),
        eval_tasks=partial(_rows, options, held_out=True),
        tools=() if as_text else _tools(options, spec),
        reward=reward(env=spec, range=(0, 1))(share_of_the_way if options.subgoals else success),
        environment=spec,
        system_prompt=_SYSTEM_PROMPTS[options.actions],
        max_turns=options.max_turns,
        expert=player(expert),
        gold=player(gold),
        noisy=player(noisy),
        random=player(random),
    )


def _tools(options: AlfworldOptions, spec: EnvSpec) -> tuple[Tool, ...]:
    acting = (tool(act, env=spec),)
    return acting if options.show_commands else (*acting, tool(commands, env=spec))


def _rows(options: AlfworldOptions, *, held_out: bool) -> list[dict[str, object]]:
    if options.data is not None:
        rows = official_rows(
            options.data,
            split=options.eval_split if held_out else "train",
            task_types=options.task_types,
            goal_text=options.goal_text,
        )
    else:
        rows = generated_rows(
            options.eval_games if held_out else options.games,
            split="eval" if held_out else "train",
            task_types=options.task_types,
            size=options.size,
            rooms=options.rooms,
        )
    return [dict(row) for row in rows]


ALFWORLD = EnvironmentDefinition(
    name="alfworld",
    summary=INDEX["alfworld"].summary,
    options=AlfworldOptions,
    make=make_alfworld,
)
