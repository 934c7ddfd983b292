"""Folders of runs, written by hand with the writers of a real run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentfly.observe import MetricsFile, TrajectoryWriter, compact, evaluation_metrics
from agentfly.types import Group

CONFIG = """\
# A comment.
name = "demo"
model.name = "tiny"
algorithm.name = "grpo"
train.steps = 4
"""


def write_chains(file: Path, groups: Sequence[Group], *, packed: bool = True) -> None:
    with TrajectoryWriter(file) as writer:
        for group in groups:
            writer.write_group(group)
    if packed:
        compact(file)


def record_run(
    folder: Path,
    *,
    evaluations: Mapping[int, Sequence[Group]] | None = None,
    steps: Mapping[int, Sequence[Group]] | None = None,
    rewards: Sequence[float] = (0.25, 0.5, 0.75, 1.0),
    config: str = CONFIG,
) -> Path:
    """Write a run of one step per reward; each took 2 s of sampling and 1 s of training."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(config)
    (folder / "run.json").write_text('{"v": 1, "kind": "run"}\n')
    with_chains = evaluations or {}
    times = iter(range(1000, 2000, 3))
    metrics = MetricsFile(folder / "metrics.jsonl", now=lambda: float(next(times)))
    for step, reward in enumerate((None, *rewards)):
        if reward is not None:
            taken = {"reward/mean": reward, "time/sampling": 2.0, "time/training": 1.0}
            metrics.log({**taken, "time/generation": 1.5, "time/tools": 0.5}, step)
        if step in with_chains:
            metrics.log(evaluation_metrics(with_chains[step]), step)
    metrics.close()
    for step, groups in with_chains.items():
        write_chains(folder / "trajectories" / f"eval_{step}.jsonl", groups)
    for step, groups in (steps or {}).items():
        write_chains(folder / "trajectories" / f"step_{step}.jsonl", groups)
    return folder
