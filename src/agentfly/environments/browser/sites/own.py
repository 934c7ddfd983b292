"""Pages of users' own, by rows: a start address, an instruction, and a check.

{"start": "http://localhost:3000/", "instruction": "Put a mug into the cart.",
 "check": "document.querySelectorAll('.cart .mug').length"}
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.config import import_named
from agentfly.environments.browser.address import AddressRules, parse_rules, rule_of
from agentfly.environments.browser.chromium.tab import ScriptError
from agentfly.environments.browser.sites.site import Outcome, PageRequest, PageResponse, PageView
from agentfly.errors import ConfigError, EnvError, boundary
from agentfly.tasks import load_tasks


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

    def respond(self, request: PageRequest) -> PageResponse:
        """Never called: no host is served."""
        raise EnvError(f"{request.url} is not served by the environment")

    async def begin(self, page: PageView) -> str:
        """Return the instruction."""
        del page
        return str(self._row["instruction"])

    async def check(self, page: PageView) -> Outcome:
        """Return the score of the page; a full one ends the task."""
        score = read_score(await self._score(page), self.start)
        return Outcome(reward=score, done=score >= 1)

    async def _score(self, page: PageView) -> object:
        if self._check is not None:
            shown = CheckedPage(url=page.url, text=await page.text(), task=self._row)
            with boundary(EnvError, f"checking {self.start}"):
                return self._check(shown)
        try:
            return await page.evaluate(str(self._row["check"]))
        except ScriptError:
            return 0.0  # A check may use what is only on some pages.


def read_score(value: object, start: str) -> float:
    """Return a check's value as a score; a truth value is 0 or 1.

    >>> read_score(True, ""), read_score(0.5, ""), read_score(None, "")
    (1.0, 0.5, 0.0)
    """
    if value is None:
        return 0.0
    if isinstance(value, bool | int | float) and 0 <= value <= 1:
        return float(value)
    raise EnvError(f"the check of {start} must give a number from 0 to 1, got {value!r}")


def find_check(path: str) -> Check:
    """Return a user's check by its `module:name`."""
    check: Check = import_named(path, "check")
    if not callable(check):
        raise ConfigError(f"check={path!r} must name a function, got {check!r}")
    return check


def require_row(row: Mapping[str, Any], *, has_check: bool) -> dict[str, Any]:
    """Return a row; ConfigError for one that lacks something."""
    wanted = ("start", "instruction") if has_check else ("start", "instruction", "check")
    missing = [name for name in wanted if not isinstance(row.get(name), str)]
    if missing:
        raise ConfigError(
            f"a row of your own site needs {', '.join(wanted)} as texts; "
            f"{', '.join(missing)} is missing in {dict(row)!r}"
        )
    rule_of(str(row["start"]))
    return dict(row)


def read_rows(file: Path, *, has_check: bool) -> list[dict[str, Any]]:
    """Read the rows of a file."""
    tasks = load_tasks(file)
    if not tasks:
        raise ConfigError(f"{file} has no rows: write at least one")
    return [{"id": task.id, **require_row(task.fields, has_check=has_check)} for task in tasks]
