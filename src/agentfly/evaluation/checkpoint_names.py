"""Checkpoints of runs by name.

runs/sums@best    the best by held-out reward
runs/sums@last    the newest; also runs/sums alone
sums@40           that of step 40, of the run in the folder `runs`
runs/sums@0       the model that the run began with
runs/sums@all     the model that it began with and every checkpoint: a curve
"""

import re
from dataclasses import dataclass
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.observe.recorded_run import RUNS, RecordedRun, find_run
from agentfly.observe.run_folder import MARK

_NAMED = re.compile(r"(?P<run>.+)@(?P<which>best|last|all|\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoints:
    """Model folders of a run with their steps, the oldest first."""

    run: RecordedRun
    folders: dict[int, str]


def find_checkpoints(name: str) -> NamedCheckpoints | None:
    """Return the checkpoints that a name means; None if it names a model, not a run.

    Raises:
        ConfigError: There is no such run, or it has no such checkpoint.
    """
    named = _NAMED.fullmatch(name)
    if named is None:
        folders = (Path(name), RUNS / name)
        if not any((folder / MARK).is_file() for folder in folders):
            return None
        return _select(find_run(name), "last")
    return _select(find_run(named["run"]), named["which"])


def _select(run: RecordedRun, which: str) -> NamedCheckpoints:
    if run.kind != "run":
        raise ConfigError(f"{run.path} is an evaluation and has no checkpoints: name a run")
    folders = _folders(run)
    steps = sorted(folders)
    match which:
        case "all":
            chosen = steps
        case "last":
            chosen = steps[-1:]
        case "best":
            chosen = [_best(run)]
        case _:
            chosen = [int(which)]
    missing = [step for step in chosen if step not in folders]
    if missing:
        known = ", ".join(map(str, steps))
        raise ConfigError(f"{run.path} has no checkpoint of step {missing[0]}. It has: {known}")
    return NamedCheckpoints(run=run, folders={step: folders[step] for step in chosen})


def _folders(run: RecordedRun) -> dict[int, str]:
    from agentfly.training.checkpoint import Checkpoints  # imports torch

    found = {one.step: str(one.path) for one in Checkpoints(run.path / "checkpoints").every()}
    base = run.settings.get("model", {}).get("name")
    return {0: str(base), **found} if base else found


def _best(run: RecordedRun) -> int:
    from agentfly.training.checkpoint import Checkpoints  # imports torch

    best = Checkpoints(run.path / "checkpoints").best()
    if best is None:
        raise ConfigError(
            f"{run.path} has no best checkpoint: none of its checkpoints was evaluated on held-out "
            f"tasks. Evaluate them: agentfly eval {run.path}@all"
        )
    return best.step


def run_of_model(name: str) -> RecordedRun | None:
    """Return the run in whose folder a model is; None for any other model.

    >>> run_of_model("tiny") is None
    True
    """
    for folder in Path(name).expanduser().absolute().parents[:2]:
        if (folder / MARK).is_file():
            return RecordedRun(folder)
    return None
