"""The folder and the trackers of a run, opened by its settings: a new run's, or one resumed.

A run is resumed only with settings that leave it the same experiment.
"""

import logging
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfly.agents.run_parts import with_algorithm_defaults
from agentfly.config import RunSettings, to_toml
from agentfly.config.override import dotted
from agentfly.config.settings_file import read_toml, validated
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError, FormatError
from agentfly.observe import RunProgress, Trackers, log_to, open_trackers, read_metrics
from agentfly.observe.heartbeat import Heartbeat
from agentfly.observe.run_folder import RunFolder
from agentfly.training.disk import report_disk_errors

AnySettings = RunSettings | SftSettings

MAY_CHANGE = (
    "folder",
    "name",
    "checkpoint.",
    "environments.",
    "eval.",
    "model.gradient_checkpointing",
    "learner.",
    "track.",
    "train.evaluate_every",
    "train.share_prefixes",
    "train.steps",
    "train.target_",
    "train.tokens_per_microbatch",
    "rollout.max_concurrent",
    "rollout.max_failed_share",
    "rollout.max_staleness",
    "rollout.retries",
)
"""Settings that a resumed run may change: when to stop, measure and save, how far sampling runs
ahead, and how much memory is taken. Everything else decides what is learned."""

_log = logging.getLogger(__name__)


@contextmanager
def enter_run_folder(
    settings: AnySettings, progress: RunProgress, *, resume: bool, base: Path | None = None
) -> Iterator[RunFolder]:
    """Open a run's folder with its log and progress bars, and report errors of its disk."""
    with (
        report_disk_errors(settings.folder / settings.name),
        open_folder(settings, resume=resume, base=base) as folder,
        progress,
        log_to(folder.log_file, show=progress.message),
    ):
        yield folder


@contextmanager
def fetching(settings: AnySettings, progress: RunProgress) -> Iterator[None]:
    """Print at once, and every thirty seconds, that a run's model is fetched or looked up."""
    name, run = settings.model.name, settings.folder / settings.name
    progress.message(f"the run {run} with the model {name}")

    def show() -> None:
        progress.message(f"still fetching {name}")

    with Heartbeat(show):
        yield


def open_folder(settings: AnySettings, *, resume: bool, base: Path | None = None) -> RunFolder:
    """Create the run's folder, or open it again with settings that leave it the same run."""
    path, config = settings.folder / settings.name, to_toml(settings)
    if not resume:
        return RunFolder.create(path, config=config, base=base)
    folder = RunFolder.open(path)
    try:
        then = _started_with(folder.config_file, settings)
        if isinstance(then, RunSettings) and isinstance(settings, RunSettings):
            then = _complete_algorithm(then, settings, base)
        require_same_run(to_toml(then), config)
        folder.replace_config(config)
    except BaseException:
        folder.close()
        raise
    return folder


def _started_with(file: Path, now: AnySettings) -> AnySettings:
    """Read the settings that a run was started with; what is newer than they has its default."""
    try:
        tables = read_toml(file)
        settings = validated(type(now), tables, (), str(file))
    except ConfigError as error:
        raise FormatError(
            f"the settings that the run was started with can't be read: {error}\nRestore {file} "
            "from a copy, or put there what --dry-run prints for those settings"
        ) from error
    if missing := missing_keys(tables, to_toml(settings)):
        _log.warning(
            "%s has no value for %s: it is of an earlier version, or damaged, and the run goes on "
            "as if it had been started with the defaults",
            *(file, ", ".join(missing)),
        )
    return settings


def _complete_algorithm(then: RunSettings, now: RunSettings, base: Path | None) -> RunSettings:
    """Fill in what files of earlier versions leave out: the defaults of an own algorithm."""
    if then.algorithm.name != now.algorithm.name or not now.algorithm.options:
        return then
    try:
        return with_algorithm_defaults(then, base)
    except ConfigError:  # Its code has other options now: the comparison names them.
        return then


@contextmanager
def remove_unless_started(folder: RunFolder, *, resume: bool) -> Iterator[None]:
    """Leave nothing of a new run whose parts can't be opened: wrong settings, or a full disk.

    Otherwise its folder would refuse a new start, and with corrected settings also a resume.
    """
    try:
        yield
    except (ConfigError, OSError):
        if not resume:
            folder.abandon()
        raise


def open_run_trackers(
    folder: RunFolder, settings: AnySettings, step: int, *, resume: bool
) -> Trackers:
    """Open them; what they hold of steps after `step`, which are done again, is dropped."""
    return open_trackers(
        folder.path,
        names=settings.track.trackers,
        project=settings.track.project,
        run=settings.name,
        settings=settings.model_dump(mode="json"),
        resume_after=step if resume else None,
    )


def describe_resume(folder: RunFolder, step: int) -> str:
    """Say from which step a resumed run goes on, and which steps it takes again.

    Args:
        folder: The run's folder, with the metrics of all steps that were ever trained.
        step: The step of the newest checkpoint; 0 if there is none.
    """
    records = read_metrics(folder.metrics_file) if folder.metrics_file.exists() else ()
    last = max((record.step for record in records), default=0)
    start = f"resuming {folder.path} at step {step + 1}"
    if step == 0:
        lost = "it was stopped before its first checkpoint, and starts again from the beginning"
        return f"{start}: {lost}"
    begun = folder.has_trajectories_of(step + 1)
    if last <= step and begun:
        again = f"the chains of step {step + 1} that were begun and are not in it are sampled again"
        return f"{start}, after its checkpoint of step {step}: {again}"
    if last <= step:
        return f"{start}: nothing was lost after its checkpoint of step {step}"
    steps = f"step {last}" if last == step + 1 else f"steps {step + 1} to {last}"
    return f"{start}, after its checkpoint of step {step}: {steps} came later and must be repeated"


def require_same_run(then: str, now: str) -> None:
    """Refuse settings that would make the rest of a run another experiment.

    Args:
        then: The settings that the run was started with, as TOML.
        now: Those that it is to be resumed with.
    """
    old, new = dict(dotted(tomllib.loads(then))), dict(dotted(tomllib.loads(now)))
    changed = [
        f"{key}: {old.get(key)!r} then, {new.get(key)!r} now"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key) and not _may_change(key, old)
    ]
    if changed:
        listed = "".join(f"\n  {change}{_reason(change)}" for change in changed)
        raise ConfigError(
            f"the run was started with other settings:{listed}\nResume with those that it was "
            "started with (its config.toml has them all), or start a new run under another name. "
            "Where neither was changed, config.toml is damaged: correct it there"
        )


def _may_change(key: str, old: dict[str, Any]) -> bool:
    if key == "train.steps" and old.get("train.schedule") == "cosine":
        # The rates of the steps that are done would be those of no schedule.
        return False
    return key.startswith(MAY_CHANGE)


def missing_keys(tables: dict[str, Any], complete: str) -> list[str]:
    r"""List the settings of a complete file that some tables have no value for.

    >>> missing_keys({"name": "x"}, 'name = "x"\n[train]\nsteps = 3')
    ['train.steps']
    """
    return sorted(dict(dotted(tomllib.loads(complete))).keys() - dict(dotted(tables)).keys())


def _reason(change: str) -> str:
    """Return the reason of a refusal that is not obvious from the setting itself."""
    if not change.startswith("train.steps:"):
        return ""
    return (
        " (train.schedule is 'cosine': its rates were those of a fall to 0 at the step named first,"
        " and would jump)"
    )
