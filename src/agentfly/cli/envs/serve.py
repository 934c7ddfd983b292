"""`agentfly envs serve`: serve an environment over HTTP, for other machines or languages."""

import asyncio
import logging
from typing import Annotated

import typer

from agentfly.agents.source_parts import SourceParts
from agentfly.cli.command import cli_errors
from agentfly.cli.envs.selection import Name, Options, select_environment
from agentfly.cli.serving import (
    AllowHost,
    Host,
    Port,
    Token,
    announce,
    listen_at,
    until_interrupted,
    wait,
)
from agentfly.errors import ConfigError
from agentfly.resources import SessionLimits, environment_server
from agentfly.runtime.http.address import Listen
from agentfly.types import EnvSpec

_DEFAULT = SessionLimits()


def serve(  # noqa: PLR0913 - each is an option of the command
    name: Name,
    options: Options = None,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8700,
    token: Token = None,
    allow_host: AllowHost = None,
    max_sessions: Annotated[
        int, typer.Option(min=1, help="Sessions of all clients together.")
    ] = _DEFAULT.total,
    max_client_sessions: Annotated[
        int, typer.Option(min=1, help="Sessions of one client address.")
    ] = _DEFAULT.per_client,
    web: Annotated[
        bool, typer.Option("--web", help="Serve pages for a person instead, where there are any.")
    ] = False,
) -> None:
    """Serve an environment over HTTP until Ctrl-C.

    The printed address contains a token; requests without it are refused. The page about servers
    in the documentation describes the requests.
    """
    logging.basicConfig(format="%(message)s")
    with cli_errors(), until_interrupted():
        listen = listen_at(host, port, token, allow_host)
        parts = select_environment(name, options)
        if web:
            _serve_pages(parts, name, listen)
        else:
            limits = SessionLimits(total=max_sessions, per_client=max_client_sessions)
            asyncio.run(_serve(_only_environment(parts, name), listen, limits))


async def _serve(spec: EnvSpec, listen: Listen, limits: SessionLimits) -> None:
    async with environment_server(
        spec,
        host=listen.host,
        port=listen.port,
        token=listen.token,
        allowed_hosts=listen.allowed_hosts,
        limits=limits,
    ) as url:
        announce(spec.name, url, listen)
        await asyncio.Event().wait()


def _serve_pages(parts: SourceParts, name: str, listen: Listen) -> None:
    pages = parts.kit.pages if parts.kit else None
    if pages is None:
        raise ConfigError(f"{name} has no pages for a person: leave --web out")
    with pages(listen) as url:
        announce(name, url, listen)
        wait()


def _only_environment(parts: SourceParts, name: str) -> EnvSpec:
    """Return the environment that the tools and the reward share."""
    used = [spec for tool in parts.tools for spec in tool.environments]
    specs = list(dict.fromkeys([*([parts.environment] if parts.environment else []), *used]))
    if len(specs) != 1:
        names = ", ".join(spec.name for spec in specs) or "none"
        raise ConfigError(f"{name} can be served if it has one environment; it has: {names}")
    return specs[0]
