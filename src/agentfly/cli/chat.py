"""`agentfly chat`: talk to a model that can call tools."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer

from agentfly.agents import Agent
from agentfly.agents.registry import find_tools
from agentfly.cli.command import TemplateOptions, cli_errors, read_options
from agentfly.config import EngineSettings
from agentfly.config.validation_errors import refuse_if_any
from agentfly.engines.factory import engine_problems
from agentfly.types import (
    Event,
    Message,
    Observed,
    SamplingParams,
    TokenSampled,
    Trajectory,
)

# With readline loaded, `input` has line editing and a history; Windows has no readline.
with suppress(ImportError):
    import readline  # noqa: F401


def chat(  # noqa: PLR0913 - one option each
    model: Annotated[str, typer.Argument(help="A folder, a built-in model, or a hub id.")],
    tools: Annotated[
        str, typer.Option(help="Comma-separated: calculator, or module:name of your own.")
    ] = "",
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.7,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens of one turn.")] = 512,
    max_turns: Annotated[int, typer.Option(help="Maximum turns per question.")] = 8,
    engine: Annotated[
        str, typer.Option(help="The engine: local, vllm, or module:name of your own.")
    ] = "local",
    url: Annotated[
        str | None, typer.Option(help="A running vLLM server, for --engine vllm.")
    ] = None,
    *,
    template_option: TemplateOptions = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run Python code that comes with the model."),
    ] = False,
) -> None:
    """Talk to a model in the terminal, and watch it call its tools.

    Ctrl-C stops what the model is saying; Ctrl-D or /exit ends the conversation; /new begins one.
    """
    with cli_errors():
        sampler = EngineSettings(name=engine, urls=(url,) if url else ())
        refuse_if_any([*engine_problems(sampler)], None)
        names = [name.strip() for name in tools.split(",") if name.strip()]
        agent = Agent(
            model,
            tools=[tool for name in names for tool in find_tools(name)],
            system_prompt=system,
            sampling=SamplingParams(temperature=temperature, max_tokens=max_tokens),
            max_turns=max_turns,
            engine=sampler,
            trust_remote_code=trust_remote_code,
            template_options=read_options(template_option),
        )
        agent.setup()  # the weights are read now, not at the first question
    with asyncio.Runner() as runner:
        try:
            Conversation(agent, runner).run()
        finally:
            runner.run(agent.close())


class Conversation:
    """The history of one chat and the loop that reads questions."""

    def __init__(self, agent: Agent, runner: asyncio.Runner) -> None:
        self._agent = agent
        self._runner = runner
        self._history: list[Message] = []
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
                self._history = []
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
        self._remember(result.trajectories[0])

    def _remember(self, trajectory: Trajectory) -> None:
        typer.echo()
        if trajectory.error:
            typer.secho(f"  ({trajectory.stop}: {trajectory.error})", fg=typer.colors.RED)
            return
        own_prompt = 1 if trajectory.messages[0].role == "system" else 0
        self._history = list(trajectory.conversation[own_prompt:])


def show(event: Event) -> None:
    """Print sampled text as it arrives, and the results of tool calls."""
    match event:
        case TokenSampled():
            typer.echo(event.text, nl=False)
        case Observed():
            color = typer.colors.CYAN if event.result.status == "ok" else typer.colors.YELLOW
            typer.secho(f"\n  {event.call.name} → {event.result.observation}", fg=color)
