"""`agentfly search`: make an index of documents, query it, serve it."""

from collections.abc import Iterator
from contextlib import contextmanager
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
from agentfly.environments.search.backend import backend_spec, open_backend
from agentfly.environments.search.corpus import Chunking
from agentfly.environments.search.environment import format_passage
from agentfly.environments.search.retrieval import (
    RetrievalMethod,
    SearchIndex,
    SentenceEmbedder,
    retrieval_server,
)
from agentfly.environments.search.retrieval.dense import SMALL
from agentfly.environments.search.retrieval.index import ProgressCallback

search = typer.Typer(help="Search documents: index, query, serve.", no_args_is_help=True)

Where = Annotated[str, typer.Argument(help="A folder made by `index`, or a server's http://...")]
HowFound = Annotated[
    RetrievalMethod, typer.Option(help="By words (bm25), by meaning (dense), or by both.")
]
HowMany = Annotated[int, typer.Option("-k", min=1, help="How many passages.")]


@search.command()
def index(
    to: Annotated[Path, typer.Option(help="A new folder, or one to add vectors to.")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files (.jsonl, .txt, .md, .html, .parquet, a MediaWiki .xml.bz2), folders of "
            "them, or hub:organization/name:split; none to add vectors to an index."
        ),
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="Words per passage.")] = 100,
    overlap: Annotated[
        int, typer.Option(min=0, help="Words that a passage repeats from the one before.")
    ] = 0,
    dense: Annotated[
        str | None, typer.Option(help=f"Embed the passages too, by this model, such as {SMALL}.")
    ] = None,
) -> None:
    """Split documents into passages and index them."""
    if overlap >= words:
        raise typer.BadParameter(f"--overlap {overlap} must be less than --words {words}")
    chunking = Chunking(words=words, overlap=overlap)
    with cli_errors(), _stages() as on_stage:
        if sources:
            made = SearchIndex.create(to, sources, chunking=chunking, on_stage=on_stage)
        else:
            made = SearchIndex(to)
        if dense is not None:
            made.embed(SentenceEmbedder(dense), on_stage=on_stage)
    typer.echo(f"{len(made.corpus)} passages in {to}. Try: agentfly search query {to} 'some words'")


@search.command()
def query(where: Where, text: str, by: HowFound = "bm25", k: HowMany = 5) -> None:
    """Show the passages that match a query best."""
    with cli_errors():
        hits = open_backend(backend_spec(where, by)).retriever.search(text, k)
    for hit in hits:
        typer.echo(f"{hit.score:8.4f}  {format_passage(hit.passage)}")
    if not hits:
        typer.echo("nothing found")


@search.command()
def serve(
    folder: Annotated[Path, typer.Argument(help="A folder made by `index`.")],
    by: HowFound = "bm25",
    *,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    token: Token = None,
    allow_host: AllowHost = None,
) -> None:
    """Serve an index to other processes, at POST /retrieve, until Ctrl-C.

    The printed address contains a token; requests without it are refused.
    """
    with cli_errors(), until_interrupted():
        listen = listen_at(host, port, token, allow_host)
        with _stages() as on_stage:
            retriever = SearchIndex(folder).retriever(by, on_stage=on_stage)
        with retrieval_server(
            retriever,
            host=listen.host,
            port=listen.port,
            token=listen.token,
            allowed_hosts=listen.allowed_hosts,
        ) as url:
            announce(str(folder), url, listen)
            wait()


@contextmanager
def _stages() -> Iterator[ProgressCallback]:
    """Show a progress bar for each stage on standard error."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    described = TextColumn("{task.description}")
    columns = (described, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def on_stage(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield on_stage
