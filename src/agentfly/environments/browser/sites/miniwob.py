"""MiniWoB's pages, from the installed package (arXiv:1802.08802)."""

import json
import mimetypes
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from agentfly.environments.browser.address import AddressRules
from agentfly.environments.browser.site import (
    Outcome,
    PageRequest,
    PageResponse,
    PageView,
)
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime.names import require_name

HOST = "miniwob.test"
FAILED = -1.0
"""Reward of an episode that is not finished, as for MiniWoB's own time limit."""
_BEGIN = """
(async () => {
  core.EPISODE_MAX_TIME = 1e9;
  Math.seedrandom(%s);
  core.startEpisodeReal();
  for (let n = 0; n < 100 && !WOB_TASK_READY; n++) await new Promise((r) => setTimeout(r, 20));
  return core.getUtterance();
})()
"""
_CHECK = "typeof WOB_DONE_GLOBAL === 'undefined' ? null : [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"
_HIDDEN = ("#query", "#reward-display", "#click-canvas", "#sync-task-cover")


@cache
def is_installed() -> bool:
    """Return whether the package with the pages is there."""
    return find_spec("miniwob") is not None


def pages_folder() -> Path:
    """Return the folder of all pages and what they load; the package itself is not imported."""
    found = find_spec("miniwob")
    if found is None or found.origin is None:
        raise ConfigError("MiniWoB needs the package miniwob: pip install 'agentfly[browser]'")
    return Path(found.origin).parent / "html"


@cache
def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, such as `click-button`."""
    return tuple(sorted(page.stem for page in (pages_folder() / "miniwob").glob("*.html")))


def require_task(name: str) -> str:
    """Return the name of a task; ConfigError with the nearest ones if it is unknown."""
    return require_name(name, task_names(), "MiniWoB task")


class MiniWobSite:
    """One episode: a task and the seed from which it is made."""

    rules = AddressRules(served=frozenset({HOST}))
    hidden = _HIDDEN

    def __init__(self, task: str, seed: int) -> None:
        self.start = f"http://{HOST}/miniwob/{require_task(task)}.html"
        self._seed = seed

    def respond(self, request: PageRequest) -> PageResponse:
        """Return a file of the package."""
        body = _file(request.path)
        if body is None:
            return PageResponse.not_found()
        media_type = mimetypes.guess_type(request.path)[0] or "application/octet-stream"
        if media_type.startswith("text/"):
            media_type += "; charset=utf-8"
        return PageResponse(body=body, media_type=media_type)

    async def begin(self, page: PageView) -> str:
        """Begin the episode of the seed."""
        match said := await page.evaluate(_BEGIN % json.dumps(str(self._seed))):
            # Some pages give the slots of a template too, which hold the answer.
            case str(instruction) | {"utterance": str(instruction)}:
                return instruction
        raise EnvError(f"{self.start} began no episode: got {said!r}")

    async def check(self, page: PageView) -> Outcome:
        """Return the page's own reward, from -1 to 1; leaving the page fails the task."""
        match await page.evaluate(_CHECK):
            case [False, _]:
                return Outcome(reward=FAILED)
            case [True, int() | float() as reward]:
                return Outcome(reward=float(reward), done=True)
        return Outcome(reward=FAILED, done=True)


@lru_cache(maxsize=256)
def _file(path: str) -> bytes | None:
    root = pages_folder()
    file = (root / path.lstrip("/")).resolve()
    if not file.is_relative_to(root.resolve()) or not file.is_file():
        return None
    return file.read_bytes()
