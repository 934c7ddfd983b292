"""`agentfly envs`: the ready-made environments."""

import typer

from agentfly.cli.envs.demonstrate import demonstrate
from agentfly.cli.envs.look import info, list_
from agentfly.cli.envs.play import play
from agentfly.cli.envs.serve import serve

envs = typer.Typer(
    help="The ready-made environments: list, info, play, demonstrate, serve.", no_args_is_help=True
)
envs.command("list")(list_)
envs.command()(info)
envs.command()(play)
envs.command()(demonstrate)
envs.command()(serve)

__all__ = ["envs"]
