"""`agentfly`: the command line with all its commands.

A command's module is imported when it is called: a list of commands must not wait for the imports
of all of them.
"""

from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from agentfly.cli import openmp as openmp  # first, before anything imports torch
from agentfly.cli.lazy_group import LazyCommand, lazy_group
from agentfly.runtime.process_registry import reap

ABOUT = "Train language-model agents with reinforcement learning."
COMMANDS = {
    "quickstart": LazyCommand(
        "agentfly.cli.quickstart:quickstart",
        "Train a real model to use a tool, on this machine, and see its reward rise.",
    ),
    "init": LazyCommand(
        "agentfly.cli.init:init",
        "Create a small project: a tool, a reward, tasks, settings, and tests that pass.",
    ),
    "check": LazyCommand(
        "agentfly.cli.check:check",
        "Check that a chat template keeps the tokens as sampled, or report how it fails.",
    ),
    "chat": LazyCommand(
        "agentfly.cli.chat:chat",
        "Talk to a model in the terminal, and watch it call its tools.",
    ),
    "train": LazyCommand(
        "agentfly.cli.train:train", "Train a model with the settings of a TOML file."
    ),
    "eval": LazyCommand(
        "agentfly.cli.eval:eval_",
        "Evaluate a model on tasks: reward, share of solved chains, pass@k and pass^k.",
    ),
    "rescore": LazyCommand(
        "agentfly.cli.rescore:rescore_",
        "Score recorded chains by another reward, without generating anything.",
    ),
    "watch": LazyCommand(
        "agentfly.cli.watch:watch",
        "Follow a run in the terminal: each step and evaluation as it is logged, until it ends.",
    ),
    "report": LazyCommand(
        "agentfly.cli.report:report", "Write the report of a run again, from its folder alone."
    ),
    "show": LazyCommand(
        "agentfly.cli.show:show",
        "Show the chains of a run: a table of one step, or one chain with all its messages.",
    ),
    "view": LazyCommand(
        "agentfly.cli.view:view",
        "Open a page in the browser: runs, their metrics, and their chains token by token.",
    ),
    "sft": LazyCommand(
        "agentfly.cli.sft:sft",
        "Fine-tune a model on conversations (SFT), as a warm start before training by reward.",
    ),
    "validate": LazyCommand(
        "agentfly.cli.validate:validate",
        "Check that correct answers get the full reward, and list the tasks that fail.",
    ),
    "doctor": LazyCommand(
        "agentfly.cli.doctor:doctor",
        "Check this machine and report what is missing or wrong, each with its fix.",
    ),
    "export": LazyCommand(
        "agentfly.cli.export:export",
        "Export a run for other programs: its chains as data, or its model with a card.",
    ),
    "runs": LazyCommand("agentfly.cli.runs:runs", "Runs: list, show, compare, rm."),
    "envs": LazyCommand(
        "agentfly.cli.envs:envs",
        "The built-in environments: list, info, play, demonstrate, serve.",
    ),
    "search": LazyCommand("agentfly.cli.search:search", "Search documents: index, query, serve."),
    "models": LazyCommand(
        "agentfly.cli.models:models", "Models: list, fetch, info, and merge adapters."
    ),
}

app = lazy_group(COMMANDS, about=ABOUT, pretty_exceptions_enable=False)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer's signature of callbacks
    if asked:
        typer.echo(f"agentfly {installed_version('agentfly')}")
        raise typer.Exit


@app.callback()
def start(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Train language-model agents with reinforcement learning."""
    # End child processes that a killed run left behind before anything new begins.
    reap()
