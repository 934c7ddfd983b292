"""`agentfly rescore`: new rewards over recorded chains."""

import asyncio
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from agentfly.agents.registry import find_group_reward, find_reward
from agentfly.cli.command import cli_errors
from agentfly.cli.report import Run
from agentfly.errors import ConfigError
from agentfly.evaluation.rescore import NewRewards, RescoredFile, rescore
from agentfly.observe.recorded_run import RUNS, RecordedRun, find_run
from agentfly.types.short_text import printable


def rescore_(
    run: Run,
    *,
    reward: Annotated[
        str | None, typer.Option(help="A built-in reward by name, or module:name of your own.")
    ] = None,
    group_reward: Annotated[
        str | None,
        typer.Option(help="module:name of a group reward, which scores all chains of a task."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the new folder; by default RUN-REWARD.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the new folder is made.")] = RUNS,
) -> None:
    """Score recorded chains by another reward, without generating anything.

    The run is only read. The rescored chains go to a new folder of the same form, for `agentfly
    show`, `agentfly export` and `agentfly eval --compare`. A reward that looks at the state of an
    environment is refused: recorded chains have none.

    \b
        agentfly rescore sums --reward exact_match
        agentfly rescore runs/eval-tiny-sums --reward my_rewards:strict
        agentfly eval --compare runs/eval-tiny-sums runs/eval-tiny-sums-strict
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors():
        if reward is None and group_reward is None:
            raise ConfigError("name the new reward with --reward or --group-reward")
        rewards = NewRewards(
            reward=find_reward(reward) if reward else None,
            group_reward=find_group_reward(group_reward) if group_reward else None,
        )
        found = find_run(run)
        chosen = (reward or group_reward or "").rpartition(":")[2]
        target = folder / (name or f"{found.name}-{chosen}")
        files = asyncio.run(_rescored(found, rewards, target, reward))
        _show(files, Console())
        typer.echo(f"All rescored chains: {target}")


async def _rescored(
    run: RecordedRun, rewards: NewRewards, target: Path, name: str | None
) -> list[RescoredFile]:
    return [file async for file in rescore(run, rewards, target, reward_name=name)]


def _show(files: list[RescoredFile], console: Console) -> None:
    table = Table(box=SIMPLE_HEAD)
    for title in ("", "chains", "reward before", "reward now", "changed", "not scored"):
        table.add_column(title, justify="right" if title else "left")
    for file in files:
        means = [f"{fmean(values):.3f}" if values else "-" for values in (file.old, file.new)]
        counts = (file.changed, file.failed)
        table.add_row(file.title, str(len(file.new)), *means, *map(str, counts))
    console.print(table)
    if failures := [file for file in files if file.failed]:
        failed = sum(file.failed for file in failures)
        typer.echo(printable(f"{failed} chains could not be scored: {failures[0].error}"), err=True)
