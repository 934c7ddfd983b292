"""Pages of users' own, by rows: a start address, an instruction, and a check.

{"start": "http://localhost:3000/", "instruction": "Put a mug into the cart.",
 "check": "document.querySelectorAll('.cart .mug').length > 0"}
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentfly.config import import_named
from agentfly.environments.browser.address import AddressRules, parse_rules, rule_of
from agentfly.environments.browser.site import (
    Outcome,
    PageRequest,
    PageResponse,
    PageView,
    ScriptError,
)
from agentfly.errors import AgentFlyError, ConfigError, EnvError, InfrastructureError, boundary
from agentfly.runtime.clock import LoopClock
from agentfly.runtime.invoke import invoke, is_async
from agentfly.tasks.task_loading import load_checked_tasks

CHECK_SECONDS = 30.0
"""Time limit of a check in Python. Like a page that gets no processor, it is waited for half a
minute on a busy machine."""
_IN_PYTHON = '. A check in Python is named in the options instead: check = "module:function"'

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedPage:
    """A page as a Python check sees it."""

    url: str
    text: str
    """Visible text."""
    task: Mapping[str, Any]
    """Fields of the task's row."""


Check = Callable[[CheckedPage], float]
"""Scores a page from 0 to 1; 1 ends the task."""


class OwnSite:
    """A site that is there already; the environment only visits it."""

    hidden: tuple[str, ...] = ()

    def __init__(
        self, row: Mapping[str, Any], allow: Sequence[str], check: Check | None = None
    ) -> None:
        self.start = str(row["start"])
        self.rules = AddressRules(allowed=(rule_of(self.start), *parse_rules(allow)))
        self._row = row
        self._check = check
        # In a block of its own a check may declare names each time that it is evaluated.
        self._script = f"{{\n{row.get('check')}\n}}"

    def respond(self, request: PageRequest) -> PageResponse:
        """Never called: no host is served."""
        raise EnvError(f"{request.url} is not served by the environment")

    async def begin(self, page: PageView) -> str:
        """Return the instruction; ConfigError for a check in JavaScript that can't be compiled."""
        if self._check is None and (problem := await page.syntax_error(self._script)):
            check = self._row.get("check")
            raise ConfigError(f"the check {check!r} of {self.start} is no JavaScript: {problem}")
        return str(self._row["instruction"])

    async def check(self, page: PageView) -> Outcome:
        """Return the score of the page; a full one ends the task."""
        score = read_score(await self._score(page), self.start)
        return Outcome(reward=score, done=score >= 1)

    async def _score(self, page: PageView) -> object:
        if self._check is not None:
            shown = CheckedPage(url=page.url, text=await page.text(), task=self._row)
            return await call_check(self._check, shown)
        try:
            value = await page.evaluate(self._script)
        except ScriptError as error:
            _warn_once(str(self._row["check"]), self.start, str(error))
            return 0.0  # A check may use what is only on some pages.
        return 0.0 if value in (None, "-0") else value  # undefined, null, or minus zero


_reported: set[str] = set()
"""Checks in JavaScript whose exception was logged."""


def _warn_once(check: str, start: str, problem: str) -> None:
    if check not in _reported:
        _reported.add(check)
        thrown = problem.partition("\n")[0]
        _log.warning("the check %r of %s scored 0, because it threw: %s", check, start, thrown)


async def call_check(check: Check, page: CheckedPage) -> object:
    """Call a user's check in a thread, so that it delays no other chain; EnvError if it fails."""
    name = f"the check {check.__module__}:{getattr(check, '__qualname__', type(check).__name__)}"
    called = partial(check, page)
    try:
        with boundary(EnvError, f"calling {name}"):
            return await invoke(
                called, name=name, clock=LoopClock(), deadline=math.inf, seconds=CHECK_SECONDS
            )
    except InfrastructureError:
        raise
    except AgentFlyError as error:  # Its time is up, or it raised one of ours.
        raise EnvError(f"calling {name} failed: {error}") from error


def read_score(value: object, start: str) -> float:
    """Return a check's value as a score; a truth value is 0 or 1.

    >>> read_score(True, ""), read_score(0.5, "")
    (1.0, 0.5)
    """
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise EnvError(f"the check of {start} must give a number from 0 to 1, got {value!r}")


def find_check(path: str, *, base: Path | None = None) -> Check:
    """Return a user's check by its `module:name`, searched in a folder first."""
    check: Check = import_named(path, "check", base=base)
    if not callable(check):
        raise ConfigError(f"check={path!r} must name a function, got {check!r}")
    if is_async(check):
        raise ConfigError(
            f"check={path!r} must name a plain function, which is called in a thread: got an "
            "async one, which could delay all chains"
        )
    return check


def require_row(row: Mapping[str, Any], *, has_check: bool) -> dict[str, Any]:
    """Return a row; ConfigError for one that lacks something."""
    wanted = ("start", "instruction") if has_check else ("start", "instruction", "check")
    problems = [problem for name in wanted if (problem := _problem_of(name, row.get(name)))]
    if problems:
        lacks_check = "check" in wanted and _problem_of("check", row.get("check"))
        raise ConfigError(
            f"{'; '.join(problems)}. A row of your own site has {', '.join(wanted)}; this one is "
            f"{dict(row)!r}{_IN_PYTHON if lacks_check else ''}"
        )
    rule_of(str(row["start"]))
    return dict(row)


def _problem_of(name: str, value: object) -> str | None:
    if value is None:
        return f"{name} is missing"
    if not isinstance(value, str):
        return f"{name} must be a text, got {value!r}"
    return f"{name} is empty" if name == "check" and not value.strip() else None


def read_rows(file: Path, *, has_check: bool) -> list[dict[str, Any]]:
    """Read the rows of a file."""
    tasks = load_checked_tasks(
        file, check=lambda task: require_row(task.fields, has_check=has_check)
    )
    if not tasks:
        raise ConfigError(f"{file} has no rows: write at least one")
    return [{"id": task.id, **task.fields} for task in tasks]
