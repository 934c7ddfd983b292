"""Options and helpers of the commands that start a server: addresses, tokens, Ctrl-C."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from agentfly.runtime.http.address import TOKEN_VARIABLE, Listen, split_token
from agentfly.runtime.stop_signals import stop_signals

Host = Annotated[str, typer.Option(help="Which of this machine's addresses to listen on.")]
Port = Annotated[int, typer.Option(help="0 takes any free port.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar=TOKEN_VARIABLE,
        show_envvar=True,
        help="The secret that clients must send; by default a random one. Better set it by the "
        "environment variable than here.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        help="A host name by which clients may address the server. Can be repeated.",
        show_default=False,
    ),
]


def listen_at(host: str, port: int, token: str | None, allow_host: list[str] | None) -> Listen:
    """Return where to listen; raise ConfigError for a wrong port, token or host."""
    return Listen(host=host, port=port, token=token, allowed_hosts=tuple(allow_host or ()))


def announce(what: str, url: str, listen: Listen) -> None:
    """Print the address, with the token if it is a new one; it is never logged."""
    shown = url if listen.token is None else f"{split_token(url)[0]} with the token that you chose"
    typer.echo(f"serving {what} at {shown}\nCtrl-C ends it", err=True)


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the body quietly at Ctrl-C, SIGTERM or SIGHUP."""
    with stop_signals():
        try:
            yield
        except KeyboardInterrupt:
            typer.echo("ended", err=True)


def wait() -> None:
    """Wait for Ctrl-C."""
    threading.Event().wait()
