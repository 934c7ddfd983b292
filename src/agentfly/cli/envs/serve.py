"""`agentfly envs serve`: an environment behind HTTP, for other machines or languages."""

import asyncio
import logging
from contextlib import suppress
from typing import Annotated

import typer

from agentfly.agents.outfit import Outfit
from agentfly.cli.envs.chosen import Name, Options, choose
from agentfly.cli.errors import told_plainly
from agentfly.errors import ConfigError
from agentfly.resources import serve_environment
from agentfly.types import EnvSpec


def serve(
    name: Name,
    options: Options = None,
    *,
    host: Annotated[str, typer.Option(help="Which address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8700,
    web: Annotated[
        bool, typer.Option("--web", help="Serve pages for a person instead, where there are any.")
    ] = False,
) -> None:
    """Serve an environment over HTTP until Ctrl-C.

    There is no password: keep the port to yourself. The requests are described in the
    documentation, on the page about environments.
    """
    logging.basicConfig(format="%(message)s")
    with told_plainly(), suppress(KeyboardInterrupt):
        outfit = choose(name, options)
        if web:
            _serve_pages(outfit, name, host, port)
        else:
            asyncio.run(serve_environment(_only_environment(outfit, name), host=host, port=port))


def _serve_pages(outfit: Outfit, name: str, host: str, port: int) -> None:
    pages = outfit.kit.pages if outfit.kit else None
    if pages is None:
        raise ConfigError(f"{name} has no pages for a person: leave --web out")
    pages(host, port)


def _only_environment(outfit: Outfit, name: str) -> EnvSpec:
    """Return what the tools and the reward share."""
    used = [spec for tool in outfit.tools for spec in tool.environments]
    specs = list(dict.fromkeys([*([outfit.environment] if outfit.environment else []), *used]))
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise ConfigError(f"{name} can be served if it has one environment; it has: {names}")
    return specs[0]
