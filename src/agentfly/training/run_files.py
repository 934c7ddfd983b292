"""Opening the folder and the trackers of a run by its settings: a new run's, or one resumed."""

from collections.abc import Iterator
from contextlib import contextmanager

from agentfly.config import RunSettings, to_toml
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError
from agentfly.observe import Trackers, open_trackers
from agentfly.training.resuming import require_same_run
from agentfly.training.run_folder import RunFolder

AnySettings = RunSettings | SftSettings


def open_folder(settings: AnySettings, *, resume: bool) -> RunFolder:
    """Create the run's folder, or take it up with settings that make it no other run."""
    path, config = settings.folder / settings.name, to_toml(settings)
    if not resume:
        return RunFolder.create(path, config=config)
    folder = RunFolder.open(path)
    try:
        require_same_run(folder.config, config)
        folder.replace_config(config)
    except BaseException:
        folder.close()
        raise
    return folder


@contextmanager
def begun_or_absent(folder: RunFolder, *, resume: bool) -> Iterator[None]:
    """Leave nothing of a new run whose settings turn out to be wrong when its parts are opened.

    Its folder would refuse to be started anew, and with the mistake mended, to be resumed.
    """
    try:
        yield
    except ConfigError:
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
