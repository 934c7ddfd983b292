"""Gold paths: actions that lead to 100 points, found by the simulator and kept on disk.

~/.cache/agentfly/scienceworld/1.2.3/find-plant/12-easy.json        or in $AGENTFLY_CACHE
    ["open door to greenhouse", "go to greenhouse", ...]
"""

import json
import os
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path

from agentfly.environments.scienceworld.simulator.world import World
from agentfly.errors import EnvError
from agentfly.models.model_cache import cache_folder

_one_at_a_time = threading.Lock()
"""Finding one keeps a whole JVM busy, and everybody in it waiting."""


def gold_path(task: str, variation: int, simplifications: str) -> list[str]:
    """Return the gold path of a variation; it is searched for the first time, which takes seconds.

    Raises:
        EnvError: The simulator failed, or knows no path.
    """
    with _one_at_a_time:
        file = _file(task, variation, simplifications)
        found = _read(file)
        if found is None:
            found = _search_path(task, variation, simplifications)
            _write(file, found)
        return found


def _search_path(task: str, variation: int, simplifications: str) -> list[str]:
    world = World()
    try:
        found = world.gold_path(task, variation, simplifications)
    finally:
        world.close()
    if not found:
        raise EnvError(f"the simulator knows no gold path for {task} {variation}")
    return found


def _file(task: str, variation: int, simplifications: str) -> Path:
    folder = cache_folder().parent / "scienceworld" / version("scienceworld") / task
    return folder / f"{'-'.join(filter(None, (str(variation), simplifications)))}.json"


def _read(file: Path) -> list[str] | None:
    """Read a kept path; one that can't be read is searched for anew."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, list) and all(isinstance(one, str) for one in kept) else None


def _write(file: Path, path: list[str]) -> None:
    """Write it whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=file.parent, suffix=".half")
    with os.fdopen(handle, "w", encoding="utf-8") as written:
        json.dump(path, written)
    Path(half).replace(file)
