"""`agentfly envs play`: a person in the model's place, in the same chain loop."""

import asyncio
import json
import math
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from agentfly.agents import Agent
from agentfly.agents.source_parts import SourceParts
from agentfly.cli.command import cli_errors
from agentfly.cli.envs.selection import HeldOut, Name, Options, select_environment, tasks_of
from agentfly.errors import EngineError
from agentfly.rollout import Limits
from agentfly.types import Message, SamplingParams, ToolCall, ToolSpec, Trajectory

SAY, QUIT = "/say", "/quit"
LEAVING = (QUIT, "quit", "exit")
"""Lines that leave the game, unless a tool has that name."""
MAIN_TOOL = "act"
"""Tool that gets the lines which name no tool, besides a tool that is the only one."""
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_NAMED = re.compile(r"([^\s\[(]+)(?:\s+(.*)|\[(.*)\]|\((.*)\))?", re.DOTALL)


def play(
    name: Name,
    options: Options = None,
    *,
    task: Annotated[int, typer.Option(min=1, help="The number of the task to play.")] = 1,
    tasks: Annotated[
        str | None, typer.Option(help="Rows of your own, such as a file, in place of its tasks.")
    ] = None,
    held_out: HeldOut = False,
    headed: Annotated[
        bool, typer.Option("--headed", help="Show the browser's window: the same as headed=true.")
    ] = False,
) -> None:
    """Play an environment yourself: you see what a model sees, and get the reward it would get.

    The exit code is 1 if the environment fails.
    """
    with cli_errors():
        chosen = [*(options or []), "headed=true"] if headed else options
        parts = select_environment(name, chosen, tasks=tasks)
        known = tasks_of(parts, held_out=held_out)
        if task > len(known):
            raise typer.BadParameter(f"there are {len(known)} tasks, got --task {task}")
        person = Person(has_environment=parts.environment is not None)
        result = asyncio.run(_agent(parts, person).run(known[task - 1], retries=0))
        _show_end(result.trajectories[0], person)
        if result.trajectories[0].error is not None and not person.left:
            raise typer.Exit(1)


def _agent(parts: SourceParts, person: "Person") -> Agent:
    unhurried = Limits(
        max_turns=parts.max_turns or Limits().max_turns,
        max_invalid_calls=math.inf,
        seconds=math.inf,
    )
    return Agent(
        person,
        tools=parts.tools,
        reward=parts.reward,
        environment=parts.environment,
        system_prompt=parts.system_prompt,
        limits=unhurried,
    )


@dataclass(slots=True)
class Person:
    """A chat model that asks the person at the terminal."""

    has_environment: bool
    """Whether an environment answers: without tools, all that is said is an action."""
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
            typer.secho(self._help(tools), dim=True)
        for message in messages[self._shown :]:
            if message.role != "assistant":
                typer.secho(f"\n{message.content}", fg=typer.colors.CYAN)
        self._shown = len(messages)
        return self._move(tools)

    def _move(self, tools: Sequence[ToolSpec]) -> Message:
        """Ask until a line can be parsed. Nothing else runs meanwhile, so this may block."""
        while True:
            try:
                line = _ask()
            except (EOFError, KeyboardInterrupt):
                self.left = True
                raise EngineError("the player left") from None
            if leaves(line, tools):
                self.left = True
                raise EngineError("the player left")
            match read_line(line, tools):
                case Typed(message=Message() as message):
                    return message
                case Typed(problem=problem):
                    typer.secho(problem or self._help(tools), fg=typer.colors.YELLOW)

    def _help(self, tools: Sequence[ToolSpec]) -> str:
        return help_text(tools, acts_in_text=self.has_environment and not tools)


def _ask() -> str:
    """Read a line; one that ends with a backslash continues."""
    # The event loop handles Ctrl-C itself, but only after the line has been read.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        line = input("\n> ")
        while line.endswith("\\"):
            line = line[:-1] + "\n" + input(". ")
        return line
    finally:
        signal.signal(signal.SIGINT, before)


def help_text(tools: Sequence[ToolSpec], *, acts_in_text: bool = False) -> str:
    """Return what can be typed, a line for each tool.

    Args:
        tools: The task's tools.
        acts_in_text: Whether actions are text, which an environment answers.
    """
    lines = ["quit or Ctrl-D leaves. A line that ends with \\ continues in the next one."]
    main = _main_tool(tools)
    if main is not None:
        lines.append(f"What you type goes to {main.name}: {main.description}")
    lines += [f"{_usage(tool)}: {tool.description}" for tool in tools if tool is not main]
    if acts_in_text:
        return "\n".join([*lines, "What you type is your action; so is what follows /say."])
    return "\n".join([*lines, "/say … gives your answer in words, and ends the task."])


def _usage(tool: ToolSpec) -> str:
    """Return a tool's name and arguments as they are typed: `press KEY [id=ID]`."""
    required = _required(tool)
    optional = [name for name in _properties(tool) if name not in required]
    form = "[{0}={1}]" if required else "[{1}]"
    arguments = [name.upper() for name in required]
    arguments += [form.format(name, name.upper()) for name in optional]
    return " ".join([tool.name, *arguments])


def _properties(tool: ToolSpec) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    return properties


def _required(tool: ToolSpec) -> list[str]:
    return list(tool.parameters.get("required", ()))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A parsed line, or the problem with it."""

    message: Message | None = None
    problem: str | None = None


def leaves(line: str, tools: Sequence[ToolSpec]) -> bool:
    """Return whether a line leaves the game.

    >>> leaves("quit", []), leaves("quit smoking", [])
    (True, False)
    """
    word = line.strip().lower()
    return word in LEAVING and word not in {tool.name for tool in tools}


def _main_tool(tools: Sequence[ToolSpec]) -> ToolSpec | None:
    named = [tool for tool in tools if len(tools) == 1 or tool.name == MAIN_TOOL]
    return named[0] if named else None


def read_line(line: str, tools: Sequence[ToolSpec]) -> Typed:
    """Parse a line into a call, in the ways that people write calls.

    >>> look = ToolSpec(name="look", description="", parameters={})
    >>> read_line("look", [look]).message.tool_calls[0].name
    'look'

    With one tool, the line goes to its parameter; with several, the first word names the tool:
    `search red mug`, `search[red mug]` or `search(red mug)`, and other lines go to a tool `act`,
    if there is one. Parameters are given in their order, `type 3 two words`, or by name,
    `type id=3 text="two words"`; optional ones by name at the end, `press Enter id=3`, unless all
    are optional. Without tools an environment takes the words.
    """
    text = line.strip()
    if not text:
        return Typed(problem="")
    if text == SAY or text.startswith(f"{SAY} "):
        return _said(text.removeprefix(SAY).strip())
    if not tools:
        return _said(text)
    by_name = {tool.name: tool for tool in tools}
    first, rest = _parted(text)
    if first in by_name:
        return _call(by_name[first], _without_name(by_name[first], rest))
    if (main := _main_tool(tools)) is not None:
        return _call(main, text)
    known = ", ".join(by_name)
    return Typed(problem=f"{first!r} is no tool. Begin with one of {known}, or with {SAY}")


def _parted(text: str) -> tuple[str, str]:
    """Split a name from what follows it; if brackets don't close, at the first space.

    >>> _parted("search red mug"), _parted("search[red mug]"), _parted("print(6) * 7")
    (('search', 'red mug'), ('search', 'red mug'), ('print(6)', '* 7'))
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        first, _, rest = text.partition(" ")
        return first, rest.strip()
    name, *inside = found.groups(default="")
    return name, "".join(inside).strip()


def _without_name(tool: ToolSpec, text: str) -> str:
    """Return `3` for the text `id=3`, if `id` is the tool's only parameter."""
    parameters = list(_properties(tool))
    if len(parameters) != 1 or not text.startswith(f"{parameters[0]}="):
        return text
    value = text.removeprefix(f"{parameters[0]}=").strip()
    return value[1:-1] if _QUOTED.fullmatch(value) else value


def _said(words: str) -> Typed:
    if not words:
        return Typed(problem=f"nothing is said yet: write your answer after {SAY}")
    return Typed(message=Message(role="assistant", content=words))


def _call(tool: ToolSpec, text: str) -> Typed:
    try:
        arguments = _arguments(tool, text)
    except ValueError as error:
        return Typed(problem=f"{tool.name}: {error}")
    call = ToolCall(id="call", name=tool.name, arguments=json.dumps(arguments))
    return Typed(message=Message(role="assistant", tool_calls=(call,)))


def _arguments(tool: ToolSpec, text: str) -> Mapping[str, Any]:
    parameters = list(_properties(tool))
    if not text:
        return {}
    if not parameters:
        raise ValueError(f"it takes nothing, got {text!r}")
    if len(parameters) == 1:
        return {parameters[0]: _value(tool, parameters[0], text)}
    required = _required(tool)
    given = _by_name(text, parameters) or _by_position_then_name(text, parameters, required)
    if len(given) < len(required):
        raise ValueError(f"write {' '.join(f'{name}=…' for name in parameters)}")
    return {key: _value(tool, key, value) for key, value in given.items()}


def _by_name(text: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a line such as `id=3 text="two words"`; none if it is another."""
    pairs = [part.partition("=") for part in _words(text)]
    is_named = all(equals and key in parameters for key, equals, _ in pairs)
    return {key: value for key, _, value in pairs} if is_named else {}


def _by_position_then_name(
    text: str, parameters: Sequence[str], required: Sequence[str]
) -> dict[str, str]:
    """Return the arguments of a line such as `Enter id=3`, whose last ones are optional.

    >>> _by_position_then_name("Enter id=3", ["key", "id"], ["key"])
    {'key': 'Enter', 'id': '3'}
    """
    optional = [name for name in parameters if name not in required] if required else []
    named: dict[str, str] = {}
    rest, _, last = text.rpartition(" ")
    while rest and (found := _by_name(last, optional)):
        named, text = found | named, rest.rstrip()
        rest, _, last = text.rpartition(" ")
    return _by_position(text, required or parameters) | named


def _by_position(text: str, parameters: Sequence[str]) -> dict[str, str]:
    """Return the arguments of a line such as `3 two words`: the last one takes the rest.

    >>> _by_position("3 two words", ["id", "text"]), _by_position("'a b' c", ["what", "where"])
    ({'id': '3', 'text': 'two words'}, {'what': 'a b', 'where': 'c'})
    """
    most = len(parameters)
    quoted = _words(text) if most > 1 else []
    parts = quoted if len(quoted) == most else text.split(maxsplit=most - 1)
    return dict(zip(parameters, parts, strict=False))


def _words(text: str) -> list[str]:
    """Split a line at its spaces, but not within quotes; one of `don't` has no end."""
    try:
        return shlex.split(text) if set(text) & set("\"'") else text.split()
    except ValueError:
        return text.split()


def _value(tool: ToolSpec, parameter: str, text: str) -> Any:
    """Return the JSON value of a text where the parameter takes one; the tool checks it."""
    kind = _properties(tool).get(parameter, {}).get("type")
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
