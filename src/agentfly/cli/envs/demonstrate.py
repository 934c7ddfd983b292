"""`agentfly envs demonstrate`: run a scripted player, to imitate or to compare with."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from agentfly.agents.demonstrate import demonstrate as run
from agentfly.agents.run_result import open_trajectory_file
from agentfly.agents.source_parts import SourceParts
from agentfly.cli.command import cli_errors
from agentfly.cli.envs.selection import HeldOut, Kind, Name, Options, select_environment, tasks_of
from agentfly.environments import Player
from agentfly.errors import ConfigError
from agentfly.observe import summarize
from agentfly.observe.summary import failure_cause
from agentfly.types import Trajectory

Who = Literal["expert", "gold", "noisy", "random"]


def demonstrate(
    name: Name,
    options: Options = None,
    *,
    by: Annotated[Who, typer.Option(help="Player: expert, gold, noisy or random.")] = "expert",
    count: Annotated[int, typer.Option(min=1, help="Number of tasks, from the first on.")] = 100,
    held_out: HeldOut = False,
    kind: Kind = "tools",
    out: Annotated[Path | None, typer.Option(help="A new file for the chains.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the player's choices.")] = 0,
) -> None:
    """Let a scripted player attempt tasks, and print its mean reward.

    The chains can be imitated, as the start of a run:

    \b
        agentfly envs demonstrate code --count 200 --out expert.jsonl
        agentfly sft warm.toml          # with data.files = ["expert.jsonl"], data.retokenize = true

    If every chain fails, no file is left and the exit code is 1.
    """  # noqa: D301 - a real \\b keeps lines apart
    with cli_errors(), ExitStack() as stack:
        parts = select_environment(name, options, kind=kind)
        tasks = tasks_of(parts, held_out=held_out)[:count]
        record = stack.enter_context(open_trajectory_file(out, tasks)) if out else None
        done = stack.enter_context(typer.progressbar(length=len(tasks), file=sys.stderr))

        def ended(trajectory: Trajectory) -> None:
            done.update(1)
            if record is not None:
                record.write(trajectory)

        chains = asyncio.run(
            run(parts, player_of(parts, by), tasks, seed=seed, on_trajectory=ended)
        )
    typer.echo(summarize(chains))
    for cause, message in _first_errors(chains).items():
        typer.secho(f"{cause}: {message}", fg=typer.colors.RED, err=True)
    if all(chain.error is not None and chain.reward is None for chain in chains):
        _remove(out)
        raise typer.Exit(1)
    if out:
        typer.echo(f"{len(chains)} chains are in {out}")


def _first_errors(chains: Sequence[Trajectory]) -> dict[str, str]:
    """Return the first message of each cause of failed chains."""
    found: dict[str, str] = {}
    for chain in chains:
        if (cause := failure_cause(chain)) and chain.error is not None:
            found.setdefault(cause, chain.error.removeprefix(f"{cause}: "))
    return found


def _remove(out: Path | None) -> None:
    """Remove a file that holds failed chains only; never a device or a link."""
    if out is not None and out.is_file() and not out.is_symlink():
        out.unlink()


def player_of(parts: SourceParts, who: Who) -> Player:
    """Return the environment's player of this name."""
    kit = parts.kit
    assert kit is not None, "chosen by the name of a built-in environment"
    gold = kit.gold or kit.expert
    players: dict[Who, Player | None] = {
        "expert": kit.expert,
        "gold": gold,
        "noisy": kit.noisy,
        "random": kit.random,
    }
    player = players[who]
    if player is None:
        known = ", ".join(name for name, each in players.items() if each is not None)
        raise ConfigError(f"this environment has no player {who!r}. It has {known or 'none'}")
    return player
