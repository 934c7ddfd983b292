"""`agentfly view`: a page in the browser with runs, their metrics and their chains."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from agentfly.cli.command import cli_errors
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
from agentfly.observe.recorded_run import RUNS
from agentfly.runtime.http import require_server_packages


def view(
    folder: Annotated[
        Path, typer.Argument(help="The folder in which runs are kept, or that of one run.")
    ] = RUNS,
    *,
    host: Host = "127.0.0.1",
    port: Port = 8710,
    token: Token = None,
    allow_host: AllowHost = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> None:
    """Open a page in the browser: runs, their metrics, and their chains token by token.

    The page is served by this process until Ctrl-C, to this machine alone. Its address carries a
    token, without which requests are refused. It needs no network, changes nothing but its own
    index next to the chains, and runs no code of the runs.

    \b
        agentfly view
        agentfly view runs/sums
        agentfly view --no-browser --port 0
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors(), until_interrupted():
        require_server_packages("the viewer")
        from agentfly.serve.viewer import viewer

        listen = listen_at(host, port, token, allow_host)
        with viewer(folder, listen) as url:
            announce(str(folder), url, listen)
            if browser:
                webbrowser.open(url)
            wait()
