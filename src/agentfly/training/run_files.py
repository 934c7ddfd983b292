"""Opening the folder and the trackers of a run by its settings: a new run's, or one resumed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentfly.config import RunSettings, to_toml
from agentfly.config.settings_file import read_toml, validated
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError, FormatError
from agentfly.observe import Trackers, open_trackers
from agentfly.training.resuming import missing_keys, require_same_run
from agentfly.training.run_folder import RunFolder

AnySettings = RunSettings | SftSettings

_log = logging.getLogger(__name__)


def open_folder(settings: AnySettings, *, resume: bool) -> RunFolder:
    """Create the run's folder, or take it up with settings that make it no other run."""
    path, config = settings.folder / settings.name, to_toml(settings)
    if not resume:
        return RunFolder.create(path, config=config)
    folder = RunFolder.open(path)
    try:
        require_same_run(to_toml(_started_with(folder.config_file, settings)), config)
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


@contextmanager
def remove_unless_started(folder: RunFolder, *, resume: bool) -> Iterator[None]:
    """Leave nothing of a new run whose parts can't be opened: wrong settings, or a full disk.

    Its folder would refuse to be started anew, and with the mistake mended, to be resumed.
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
