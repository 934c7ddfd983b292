"""`agentfly`: the command line with all its commands."""

import typer

from agentfly.cli import openmp as openmp  # first, before anything imports torch
from agentfly.cli.chat import chat
from agentfly.cli.check import check
from agentfly.cli.doctor import doctor
from agentfly.cli.envs import envs
from agentfly.cli.models import models
from agentfly.cli.quickstart import quickstart
from agentfly.cli.search import search
from agentfly.cli.sft import sft
from agentfly.cli.train import train
from agentfly.cli.validate import validate
from agentfly.runtime.process import reap

app = typer.Typer(
    help="Train language-model agents with reinforcement learning.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def start() -> None:
    """Train language-model agents with reinforcement learning."""
    # End child processes that a killed run left behind before anything new begins.
    reap()


app.command()(quickstart)
app.command()(check)
app.command()(chat)
app.command()(train)
app.command()(sft)
app.command()(validate)
app.command()(doctor)
app.add_typer(envs, name="envs")
app.add_typer(search, name="search")
app.add_typer(models, name="models")
