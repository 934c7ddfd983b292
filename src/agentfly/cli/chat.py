"""`agentfly chat`: talk to a model that can call tools."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated

import typer

from agentfly.agents import Agent
from agentfly.agents.registry import find_kind, find_tools
from agentfly.agents.trained_agent import TrainedAgent, find_trained
from agentfly.cli.command import (
    TEMPLATE_OPTION,
    EngineName,
    EngineUrl,
    TemplateOptions,
    TrustRemoteCode,
    cli_errors,
    read_options,
)
from agentfly.cli.trust import require_trust
from agentfly.config import EngineSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.engines.factory import engine_problems
from agentfly.errors import ConfigError
from agentfly.tasks import load_tasks
from agentfly.types import (
    AgentKind,
    Event,
    Message,
    Observed,
    SamplingParams,
    TokenSampled,
    Tool,
    Trajectory,
)
from agentfly.types.short_text import count

# With readline loaded, `input` has line editing and a history; Windows has no readline.
with suppress(ImportError):
    import readline  # noqa: F401


def chat(  # noqa: PLR0913 - one option each
    model: Annotated[
        str,
        typer.Argument(
            help="A folder, a built-in model, a hub id; or a run, by folder or name, with its "
            "tools, kind and examples."
        ),
    ],
    tools: Annotated[
        str | None, typer.Option(help="Comma-separated: calculator, or module:name of your own.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="How calls are written: tools, tags, react, code.")
    ] = None,
    examples: Annotated[
        str | None,
        typer.Option(help="A file of rows whose `messages` are shown before every question."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="The source of the run whose tools and prompt are used; by default the first."
        ),
    ] = None,
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy.")] = 0.7,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens of one turn.")] = 512,
    max_turns: Annotated[int, typer.Option(help="Maximum turns per question.")] = 8,
    engine: EngineName = "local",
    url: EngineUrl = None,
    *,
    template_option: TemplateOptions = None,
    trust: Annotated[
        bool,
        typer.Option("--trust", help="Run the code that a run's settings name, without asking."),
    ] = False,
    trust_remote_code: TrustRemoteCode = False,
) -> None:
    """Talk to a model in the terminal, and watch it call its tools.

    A run's model is used as it was trained: with the tools, the kind, the system prompt and the
    worked examples of the run, unless you give others.

    Ctrl-C stops an answer; /new starts a new conversation; Ctrl-D or /exit ends the program.

    \b
        agentfly chat smollm2-135m-instruct --tools calculator
        agentfly chat sums                  # the newest weights of the run runs/sums
        agentfly chat runs/sums/checkpoints/step_10
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        sampler = EngineSettings(name=engine, urls=(url,) if url else ())
        refuse_if_any([*engine_problems(sampler)], None)
        role = _given_role(tools, system, kind, examples)
        trained = find_trained(model)
        if trained is not None:
            role = _trained_role(trained, source, role, trust=trust)
        chosen = str(trained.model) if trained else model
        _introduce(chosen, role)
        agent = Agent(
            chosen,
            tools=role.tools or (),
            system_prompt=role.system_prompt,
            kind=role.kind or "tools",
            sampling=SamplingParams(temperature=temperature, max_tokens=max_tokens),
            max_turns=max_turns,
            engine=sampler,
            trust_remote_code=trust_remote_code,
            template_options=read_options(template_option, TEMPLATE_OPTION)
            or (trained.settings.model.template_options if trained else None),
        )
        agent.setup()  # the weights are read now, not at the first question
    with asyncio.Runner() as runner:
        try:
            Conversation(agent, runner, opening=role.opening or ()).run()
        finally:
            runner.run(agent.close())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Role:
    """Parts of an agent besides its model; None where the user has chosen nothing."""

    tools: Sequence[Tool] | None
    system_prompt: str | None
    kind: AgentKind | str | None
    opening: Sequence[Message] | None
    """Messages before every conversation."""


def _given_role(
    tools: str | None, system: str | None, kind: str | None, examples: str | None
) -> _Role:
    names = [name.strip() for name in (tools or "").split(",") if name.strip()]
    rows = load_tasks(examples) if examples else ()
    return _Role(
        tools=None if tools is None else [tool for name in names for tool in find_tools(name)],
        system_prompt=system,
        kind=kind and find_kind(kind),
        opening=[message for row in rows for message in row.messages] if examples else None,
    )


def _trained_role(trained: TrainedAgent, source: str | None, given: _Role, *, trust: bool) -> _Role:
    """Return the role that a run has trained, with what the user has chosen in its place."""
    if given.tools is not None and given.kind is not None:
        return given
    config = trained.run / "config.toml"
    require_trust(trained.settings, config, base=trained.base, trust=trust)
    parts = trained.parts(source)
    if parts.environment is not None and hasattr(parts.environment.factory, "reset"):
        raise ConfigError(
            f"the run {trained.run} was trained in an environment that begins the conversation, "
            "and a chat has none: its chains are shown by `agentfly show`. To talk to the model "
            f"alone, choose what it is given: agentfly chat {trained.model} --tools '' --kind tools"
        )
    return _Role(
        tools=parts.tools if given.tools is None else given.tools,
        system_prompt=given.system_prompt or parts.system_prompt,
        kind=given.kind or parts.kind,
        opening=trained.opening(source) if given.opening is None else given.opening,
    )


def _introduce(model: str, role: _Role) -> None:
    """Print the model and its tools, before the weights are fetched or read."""
    tools = ", ".join(tool.spec.name for tool in role.tools or ()) or "none (--tools gives some)"
    text = f"model: {model}\ntools: {tools}"
    if role.opening:
        text += f"\nbefore every question: {count(len(role.opening), 'message')} of worked examples"
    text += "\nCtrl-C stops an answer, /new begins a new conversation, /exit or Ctrl-D ends."
    typer.secho(text, dim=True)


class Conversation:
    """The history of one chat and the loop that reads questions."""

    def __init__(
        self, agent: Agent, runner: asyncio.Runner, *, opening: Sequence[Message] = ()
    ) -> None:
        self._agent = agent
        self._runner = runner
        self._opening = opening
        self._history = [*opening]
        self._questions = 0

    def run(self) -> None:
        """Read questions and answer them until the user leaves."""
        while True:
            try:
                said = input("\n> ").strip()
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo("  (Ctrl-D or /exit ends the conversation)")
                continue
            if said == "/exit":
                return
            if said == "/new":
                self._history = [*self._opening]
            elif said:
                self._answer(said)

    def _answer(self, said: str) -> None:
        asked = [*self._history, Message(role="user", content=said)]
        self._questions += 1
        try:
            with cli_errors():
                result = self._runner.run(
                    self._agent.run(asked, seed=self._questions, retries=0, on_event=show)
                )
        except KeyboardInterrupt:
            typer.secho("\n  (stopped)", dim=True)
            return
        self._remember(asked, result.trajectories[0])

    def _remember(self, asked: Sequence[Message], trajectory: Trajectory) -> None:
        typer.echo()
        if trajectory.error:
            typer.secho(f"  ({trajectory.stop}: {trajectory.error})", fg=typer.colors.RED)
            return
        self._history = [*asked, *trajectory.conversation[len(trajectory.messages) :]]


def show(event: Event) -> None:
    """Print sampled text as it arrives, and the results of tool calls."""
    match event:
        case TokenSampled():
            typer.echo(event.text, nl=False)
        case Observed():
            color = typer.colors.CYAN if event.result.status == "ok" else typer.colors.YELLOW
            typer.secho(f"\n  {event.call.name} → {event.result.observation}", fg=color)
