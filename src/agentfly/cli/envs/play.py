"""`agentfly envs play`: a person in the model's place, through the very same loop."""

import asyncio
import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import typer

from agentfly.agents import Agent
from agentfly.agents.outfit import Outfit
from agentfly.cli.envs.chosen import HeldOut, Name, Options, choose, tasks_of
from agentfly.cli.envs.typed import Typed, read_line
from agentfly.cli.errors import told_plainly
from agentfly.errors import EngineError
from agentfly.rollout import Limits
from agentfly.types import Message, SamplingParams, ToolSpec, Trajectory


def play(
    name: Name,
    options: Options = None,
    *,
    task: Annotated[int, typer.Option(min=1, help="The number of the task to play.")] = 1,
    held_out: HeldOut = False,
) -> None:
    """Play an environment yourself: you see what a model sees, and get the reward it would get."""
    with told_plainly():
        outfit = choose(name, options)
        tasks = tasks_of(outfit, held_out=held_out)
        if task > len(tasks):
            raise typer.BadParameter(f"there are {len(tasks)} tasks, got --task {task}")
        person = Person()
        result = asyncio.run(_agent(outfit, person).run(tasks[task - 1], retries=0))
        _show_end(result.trajectories[0], person)


def _agent(outfit: Outfit, person: "Person") -> Agent:
    unhurried = Limits(
        max_turns=outfit.max_turns or Limits().max_turns,
        max_invalid_calls=math.inf,
        seconds=math.inf,
    )
    return Agent(
        person,
        tools=outfit.tools,
        reward=outfit.reward,
        environment=outfit.environment,
        system_prompt=outfit.system_prompt,
        limits=unhurried,
    )


@dataclass(slots=True)
class Person:
    """A chat model that asks whoever sits at the terminal."""

    left: bool = False
    _shown: int = field(default=0, init=False)

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        """Show what is new and ask for the next move."""
        del params, deadline
        if not self._shown:
            typer.secho(_help(tools), dim=True)
        for message in messages[self._shown :]:
            if message.role != "assistant":
                typer.secho(f"\n{message.content}", fg=typer.colors.CYAN)
        self._shown = len(messages)
        return self._move(tools)

    def _move(self, tools: Sequence[ToolSpec]) -> Message:
        """Ask until a line can be understood. Nothing else goes on meanwhile, so this may block."""
        while True:
            try:
                line = _ask()
            except (EOFError, KeyboardInterrupt):
                self.left = True
                raise EngineError("the player left") from None
            match read_line(line, tools):
                case Typed(message=Message() as message):
                    return message
                case Typed(problem=problem):
                    typer.secho(problem or _help(tools), fg=typer.colors.YELLOW)


def _ask() -> str:
    """Read a line; one that ends with a backslash goes on."""
    # The event loop takes Ctrl-C for itself, and would only hear of it after the line.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        line = input("\n> ")
        while line.endswith("\\"):
            line = line[:-1] + "\n" + input(". ")
        return line
    finally:
        signal.signal(signal.SIGINT, before)


def _help(tools: Sequence[ToolSpec]) -> str:
    lines = ["Ctrl-D leaves. A line that ends with \\ goes on in the next one."]
    if len(tools) == 1:
        lines.append(f"What you type goes to {tools[0].name}: {tools[0].description}")
    else:
        lines += [f"{tool.name} …: {tool.description}" for tool in tools]
    return "\n".join([*lines, "/say … gives your answer in words, and ends the task."])


def _show_end(trajectory: Trajectory, person: Person) -> None:
    if person.left:
        typer.echo("\nleft.")
        return
    for result in trajectory.turns[-1].results if trajectory.turns else ():
        typer.secho(f"\n{result.observation}", fg=typer.colors.CYAN)
    if trajectory.error is not None:
        typer.secho(f"\n{trajectory.stop}: {trajectory.error}", fg=typer.colors.RED)
    reward = "not scored" if trajectory.reward is None else f"{trajectory.reward:g}"
    typer.echo(f"\nover ({trajectory.stop}). Reward: {reward}")
