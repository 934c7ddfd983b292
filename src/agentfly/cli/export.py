"""`agentfly export`: a run's chains as data for other programs."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentfly.cli.command import cli_errors
from agentfly.cli.report import Run
from agentfly.errors import ConfigError
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.run_export import (
    chain_rows,
    dpo_rows,
    sft_rows,
    write_jsonl,
    write_parquet,
)


class Format(StrEnum):
    """Format of exported chains."""

    SFT = "sft"
    DPO = "dpo"
    JSONL = "jsonl"
    PARQUET = "parquet"


_FILES = {
    Format.SFT: "sft.jsonl",
    Format.DPO: "dpo.jsonl",
    Format.JSONL: "chains.jsonl",
    Format.PARQUET: "chains.parquet",
}


def export(
    run: Run,
    *,
    format: Annotated[
        Format, typer.Option(help="sft and jsonl: chats; dpo: pairs; parquet: with tokens.")
    ] = Format.SFT,
    out: Annotated[
        Path | None, typer.Option(help="The file; by default in the run's folder.")
    ] = None,
    min_reward: Annotated[
        float, typer.Option(help="Least reward of the best chain of a group (sft and dpo).")
    ] = 1.0,
) -> None:
    """Export the chains of a run's training steps as data for other programs.

    \b
        sft      the best chain of each group as chat messages, as `agentfly sft` reads them
        dpo      prompt, best and worst chain of each group whose rewards differ
        jsonl    every chain: messages, reward and its parts, stop reason
        parquet  the same, with tokens, log-probabilities, and which tokens were sampled

    Held-out chains are never exported.
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        found = find_run(run)
        path = out or found.path / _FILES[format]
        if not found.steps:
            raise ConfigError(f"{found.path} has no chains of training steps to export")
        typer.echo(f"{_write(found, format, path, min_reward)} rows in {path}")


def _write(run: RecordedRun, format: Format, path: Path, min_reward: float) -> int:
    match format:
        case Format.SFT:
            return write_jsonl(sft_rows(run, min_reward=min_reward), path)
        case Format.DPO:
            return write_jsonl(dpo_rows(run, min_reward=min_reward), path)
        case Format.JSONL:
            return write_jsonl(chain_rows(run), path)
        case Format.PARQUET:
            return write_parquet(run, path)
