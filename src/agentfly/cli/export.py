"""`agentfly export`: a run's chains as data for other programs."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentfly.cli.command import cli_errors
from agentfly.cli.report import Run
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.run_export import (
    Row,
    as_recorded,
    chain_rows,
    dpo_rows,
    sft_rows,
    write_jsonl,
    write_parquet,
)
from agentfly.observe.run_list import describe_run

if TYPE_CHECKING:
    from agentfly.agents.written_chains import ChainWriter

_AS_CALLS = (
    "turns that call tools have `tool_calls` and may lack their text, so a chat template that "
    "renders no tool calls shows them empty"
)


class Format(StrEnum):
    """Format of exported chains."""

    SFT = "sft"
    DPO = "dpo"
    JSONL = "jsonl"
    PARQUET = "parquet"
    HUB = "hub"


_FILES = {
    Format.SFT: "sft.jsonl",
    Format.DPO: "dpo.jsonl",
    Format.JSONL: "chains.jsonl",
    Format.PARQUET: "chains.parquet",
    Format.HUB: "hub",
}


def export(
    run: Run,
    *,
    format: Annotated[
        Format,
        typer.Option(help="sft, jsonl: chats; dpo: pairs; parquet: with tokens; hub: the model."),
    ] = Format.SFT,
    out: Annotated[
        Path | None, typer.Option(help="File or folder; by default in the run's folder.")
    ] = None,
    min_reward: Annotated[
        float, typer.Option(help="Minimum reward of the best chain of a group (sft and dpo).")
    ] = 1.0,
) -> None:
    """Export a run for other programs: its chains as data, or its model with a card.

    \b
        sft      the best chain of each group as chat messages, as `agentfly sft` reads them
        dpo      prompt, best and worst chain of each group whose rewards differ
        jsonl    every chain: messages, reward and its parts, stop reason
        parquet  the same, with tokens, log-probabilities, and which tokens were sampled
        hub      the model's folder with a card: held-out numbers, curve, settings

    Held-out chains are never exported. For `hub`, RUN may name a checkpoint (sums@best, sums@40);
    by default it is the best one, or else the last.
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        if format is Format.HUB:
            _export_model(run, out)
            return
        found = find_run(run)
        path = out or found.path / _FILES[format]
        if not found.steps:
            raise ConfigError(f"{found.path} has no chains of training steps to export")
        if path.is_dir():
            raise ConfigError(f"{path} is a folder: name a file, such as {path / _FILES[format]}")
        rows = _write(found, format, path, min_reward)
        typer.echo(f"{rows} rows in {path}")
        if not rows and format in (Format.SFT, Format.DPO):
            typer.echo(_no_rows(format, min_reward), err=True)


def _no_rows(format: Format, min_reward: float) -> str:
    and_differ = " and a worse one beside it" if format is Format.DPO else ""
    return (
        f"No group has a chain with a reward of {min_reward:g} or more{and_differ}: lower it with "
        "--min-reward, or export every chain with --format jsonl"
    )


def _export_model(run: str, out: Path | None) -> None:
    from agentfly.evaluation.checkpoint_names import find_checkpoints
    from agentfly.evaluation.hub_export import export_to_hub

    if "@" not in run:
        entry = describe_run(find_run(run))
        run = f"{entry.run.path}@{'best' if entry.best else 'last'}"
    found = find_checkpoints(run)
    if found is not None and not found.folders:
        raise ConfigError(f"{found.run.path} has no checkpoint: it was stopped before its first")
    if found is None or len(found.folders) != 1:
        raise ConfigError(f"{run} names no single checkpoint: write {run.partition('@')[0]}@last")
    path = export_to_hub(found, out or found.run.path / _FILES[Format.HUB])
    typer.echo(f"The model of step {next(iter(found.folders))} with its card: {path}")


def _write(run: RecordedRun, format: Format, path: Path, min_reward: float) -> int:
    match format:
        case Format.SFT:
            return _write_chats(run, sft_rows, path, min_reward)
        case Format.DPO:
            return _write_chats(run, dpo_rows, path, min_reward)
        case Format.JSONL:
            return write_jsonl(chain_rows(run), path)
        case Format.PARQUET:
            return write_parquet(run, path)
        case Format.HUB:
            raise AssertionError("a model is no chains")


def _write_chats(
    run: RecordedRun, rows: Callable[..., Iterator[Row]], path: Path, min_reward: float
) -> int:
    """Write chains as the run's own template renders them, with a note where that is unknown."""
    writer = _chain_writer(run)
    count = write_jsonl(rows(run, min_reward=min_reward, write=writer or as_recorded), path)
    if writer is not None and writer.unmatched:
        typer.echo(
            f"{writer.unmatched} chains were not written by a built-in kind with this tokenizer: "
            f"{_AS_CALLS}",
            err=True,
        )
    return count


def _chain_writer(run: RecordedRun) -> "ChainWriter | None":
    """Return the writer of the run's own template; None, with a note, if there is none here."""
    from agentfly.agents.written_chains import ChainWriter
    from agentfly.chat import TemplateRenderer
    from agentfly.models import resolve_model

    model = run.settings.get("model", {})
    try:
        folder = run.tokenizer_folder or resolve_model(str(model["name"]))
        renderer = TemplateRenderer.from_folder(
            folder, template_options=model.get("template_options")
        )
    except (AgentFlyError, LookupError, TypeError) as error:
        typer.echo(f"The run's tokenizer can't be read ({error}): {_AS_CALLS}", err=True)
        return None
    sources = run.settings.get("source", ())
    kinds = {str(one.get("name", "default")): str(one.get("kind", "tools")) for one in sources}
    return ChainWriter(renderer, kinds)
