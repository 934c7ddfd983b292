"""`agentfly train --replay RUN`: the learner alone, on recorded chains."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from agentfly.agents import RunParts, resolve_run
from agentfly.cli.command import require_train_extra
from agentfly.cli.trust import require_trust
from agentfly.config import load_settings
from agentfly.errors import ConfigError
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.run_progress import step_line

if TYPE_CHECKING:
    from agentfly.training.replay import ReplayedStep  # imports torch

COMPARED = ("loss", "grad_norm", "policy/entropy", "policy/kl", "mismatch/kl", "chains_used")
"""Metrics of the learner that a line shows, where there are any."""


def replay_run(run: str, overrides: Sequence[str], *, trust: bool) -> None:
    """Take the recorded steps of a run with the learner alone, and print its metrics."""
    found = find_run(run)
    if found.kind != "run":
        raise ConfigError(f"{found.path} is an evaluation: its chains are never learned from")
    with require_train_extra():
        from agentfly.algorithms import KNOWN_ALGORITHMS
    file = found.path / "config.toml"
    settings = load_settings(file, overrides, {"algorithm": KNOWN_ALGORITHMS})
    require_trust(settings, file, overrides=overrides, base=found.base, trust=trust)
    parts = resolve_run(settings, base=found.base)
    asyncio.run(_replay(parts, found, changed=bool(overrides)))


async def _replay(parts: RunParts, run: RecordedRun, *, changed: bool) -> None:
    from agentfly.training.replay import replay

    last: ReplayedStep | None = None
    worst = 0.0
    async for last in replay(parts, run):
        typer.echo(step_line(last.step, parts.settings.train.steps, last.metrics))
        typer.echo(f"  learner   {_values(last.metrics)}")
        typer.echo(f"  recorded  {_values(last.recorded)}")
        worst = max(worst, _difference(last))
    assert last is not None, "there was a step"
    if changed:
        return
    same = "the same as" if worst < 1e-3 else f"up to {worst:.1%} off"
    typer.echo(f"The learner's metrics are {same} those that the run recorded.")


def _values(metrics: Mapping[str, float]) -> str:
    shown = [(name, metrics.get(f"train/{name}")) for name in COMPARED]
    return "  ".join(f"{name} {value:.6g}" for name, value in shown if value is not None) or "-"


def _difference(step: "ReplayedStep") -> float:
    """Return the largest relative difference of a metric of the learner."""
    worst = 0.0
    for name, value in step.metrics.items():
        then = step.recorded.get(name)
        if name.startswith("train/") and then is not None:
            scale = max(abs(value), abs(then), 1e-3)
            worst = max(worst, abs(value - then) / scale)
    return worst
