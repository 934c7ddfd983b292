"""`agentfly models`: list, fetch and describe the built-in models; merge adapters."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from agentfly.cli.command import cli_errors
from agentfly.models import fetch, list_models, model_info, progress_bar, resolve_model
from agentfly.models.adapters import merge_adapter
from agentfly.runtime.names import look_up

models = typer.Typer(help="Models: list, fetch, info, and merge adapters.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A name that `agentfly models list` shows.")]


@models.command("list")
def list_() -> None:
    """List the built-in models, and whether each is on this machine."""
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "parameters", "context", "size", "origin", "here")
    for model in list_models():
        table.add_row(
            model.name,
            f"{model.parameters / 1e6:.1f}M",
            str(model.context),
            f"{model.megabytes:.0f} MB",
            model.kind,
            "yes" if model.folder else "no",
        )
    Console().print(table)
    typer.echo("`agentfly models info NAME` shows more.")


@models.command("fetch")
def fetch_(name: Name) -> None:
    """Download a model and print its folder."""
    with cli_errors(), progress_bar(name) as progress:
        folder = fetch(name, progress=progress)
    typer.echo(folder)


@models.command()
def merge(
    adapter: Annotated[
        Path, typer.Argument(help="A checkpoint of a run with LoRA, or any adapter of peft.")
    ],
    out: Annotated[Path, typer.Argument(help="A new folder for the merged model.")],
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
) -> None:
    """Merge a LoRA adapter into its base model, and write a plain model's folder.

    \b
        agentfly models merge runs/sums/checkpoints/step_8 sums-merged
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        kinds: dict[str, Literal["float32", "bfloat16"]] = {
            "float32": "float32",
            "bfloat16": "bfloat16",
        }
        chosen = look_up(dtype, kinds, "dtype")
        typer.echo(merge_adapter(adapter, out, resolve_model, dtype=chosen))


@models.command()
def info(name: Name) -> None:
    """Show the details of a model: size, context, license, folder."""
    with cli_errors():
        model = model_info(name)
    for label, value in (
        ("name", model.name),
        ("parameters", f"{model.parameters:,}"),
        ("context", f"{model.context} tokens"),
        ("size", f"{model.megabytes:.0f} MB on disk"),
        ("license", model.license),
        ("origin", model.kind),
        ("folder", model.folder or f"not here yet: agentfly models fetch {name}"),
        ("what it is", model.description),
        *([("calls", f"{', '.join(model.tools)}, and no other tools")] if model.tools else []),
    ):
        typer.echo(f"{label:>11}  {value}")
