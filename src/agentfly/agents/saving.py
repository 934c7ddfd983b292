"""Saving chains as they end."""

from collections.abc import Iterable
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.observe import TrajectoryWriter, require_json
from agentfly.types import Task


def open_trajectory_file(path: str | Path, tasks: Iterable[Task]) -> TrajectoryWriter:
    """Open a new file for a run's chains; what could not be saved later is refused now."""
    path = Path(path)
    if path.exists() and path.stat().st_size:
        raise ConfigError(f"{path} holds another run already: name a new file, or remove it")
    for task in tasks:
        require_json(task.fields, f"row {task.id!r}")
    try:
        return TrajectoryWriter(path)
    except OSError as error:
        raise ConfigError(f"{path} can't be written to: {error}") from error
