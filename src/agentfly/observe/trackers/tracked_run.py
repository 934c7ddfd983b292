"""The run as trackers see it, with its ids at the trackers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.errors import FormatError
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.extra import import_extra

IDENTITIES = "trackers.json"
"""File with the run's id at each tracker: {"wandb": "4f09…"}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """Name, settings and folder of a run, for its trackers."""

    folder: Path
    name: str
    project: str
    settings: Mapping[str, Any]
    """Settings as JSON values, shown next to the curves."""
    resume_after: int | None
    """Step of the checkpoint that the run continues from; None in a new run."""

    def identity(self, tracker: str, make: Callable[[], str]) -> str:
        """Return the id of this run at a tracker; a resumed run keeps the one it had."""
        path = self.folder / IDENTITIES
        known = _read(path) if path.exists() else {}
        if tracker not in known:
            known[tracker] = make()
            with whole_file(path) as file:
                file.write(json.dumps(known).encode() + b"\n")
        return known[tracker]


def _read(path: Path) -> dict[str, str]:
    try:
        known = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(known, dict) or not all(isinstance(one, str) for one in known.values()):
        raise _damaged(path, 'expected ids by tracker, such as {"wandb": "4f09"}')
    return known


def _damaged(path: Path, problem: str) -> FormatError:
    return FormatError(
        f"{path} is damaged: {problem}. Restore it from a copy, or delete it: the trackers then "
        "begin a new run for what comes from now on"
    )


def import_tracker(name: str, *, extra: str, module: str | None = None) -> Any:
    """Import a tracker's package, or raise ConfigError with how to install it."""
    return import_extra(module or name, extra=extra, purpose=f"the tracker {name!r}")
