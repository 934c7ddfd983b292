"""The options of the environment `browser`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from agentfly.environments.browser.address import parse_rules
from agentfly.environments.browser.snapshot import Numbers
from agentfly.environments.kit import EnvironmentOptions

SiteName = Literal["miniwob", "office", "webshop", "own"]
Tasks = tuple[str, ...] | str
ToolName = Literal["open", "click", "type", "select", "press", "scroll", "back", "read", "tabs"]
TOOL_NAMES: tuple[ToolName, ...] = get_args(ToolName)

_OWN: tuple[SiteName, ...] = ("own",)
_SEEDED: tuple[SiteName, ...] = ("miniwob", "office")
_SHOP: tuple[SiteName, ...] = ("webshop",)
SITES_OF_OPTIONS: Mapping[str, tuple[SiteName, ...]] = {
    "tasks": _SEEDED,
    "held_out": _SEEDED,
    "episodes": _SEEDED,
    "eval_episodes": _SEEDED,
    "level": ("office", "webshop"),
    "data": _SHOP,
    "full": _SHOP,
    "goals": _SHOP,
    "products": _SHOP,
    "option_match": _SHOP,
    "rows": _OWN,
    "eval_rows": _OWN,
    "check": _OWN,
    "allow": _OWN,
}
"""Sites of the options that have an effect with some sites only."""


class BrowserOptions(EnvironmentOptions):
    """Site, tasks and observations of the browser."""

    site: SiteName = "miniwob"
    """Where the tasks are: MiniWoB's pages, a generated office with forms and tables, the shop of
    the environment `webshop`, or pages of your own."""
    tasks: Tasks = "learnable"
    """MiniWoB's tasks, or kinds of the office's: names, `all`, or `learnable` for those that the
    scripted expert solves."""
    held_out: tuple[str, ...] = ()
    """Tasks that are only evaluated, in addition to held-out seeds of the others."""
    episodes: int = Field(default=100, ge=1, le=1_000_000)
    """Number of seeds of each task to train on."""
    eval_episodes: int = Field(default=5, ge=1)
    """Number of held-out seeds of each task."""
    level: Literal["easy", "medium", "hard"] = "easy"
    """Size of the office's tables, or of the shop's generated catalog."""
    data: Path | None = None
    """Folder with WebShop's official files; a generated catalog without one."""
    full: bool = False
    """Take the files of all products where the folder also has those of the first 1,000. Only with
    `data`."""
    goals: Literal["written", "human"] = "written"
    """Which instructions of the official files to use: written by rule, or by people. Only with
    `data`."""
    products: int | None = Field(default=None, ge=10)
    """Number of the shop's products: the first of the files, or generated ones."""
    option_match: Literal["published", "values"] = "published"
    """How the shop's reward compares options: as published, or value with value."""
    rows: Path | None = None
    """File of tasks on pages of your own: `start`, `instruction` and `check` in JavaScript."""
    eval_rows: Path | None = None
    """File of held-out tasks; default `rows`."""
    check: str | None = None
    """Function of your own, as `module:name`, that scores a page in place of the rows' `check`."""
    allow: tuple[str, ...] = ()
    """Addresses that may be loaded besides the task's own pages, such as `*.example.com`."""
    tools: tuple[ToolName, ...] = Field(default=TOOL_NAMES, min_length=1)
    """Tools that the model has; fewer make shorter prompts."""
    part_chars: int = Field(default=4000, ge=200, le=20_000)
    """Maximum characters of a page's elements in one observation; `scroll` shows the other parts,
    and an element that is longer is cut."""
    changes_only: bool = False
    """Whether observations show only what has changed since the last one of the same page."""
    numbers: Numbers = "before"
    """Place of an element's number: `[4] button "OK"`, or `button "OK" [4]`. With the latter the
    expert writes the element before a call if its last observation shows it, so that a small
    model that imitates it copies the number instead of looking for it."""
    screenshots: bool = False
    """Whether tools return an image of the page too."""
    headed: bool = False
    """Whether the browser has a window, for people."""
    max_turns: int = Field(default=60, ge=1)
    """Maximum number of turns of a task."""

    @field_validator("tasks", "held_out")
    @classmethod
    def _check_tasks(cls, tasks: Tasks, info: ValidationInfo) -> Tasks:
        from agentfly.environments.browser.tasks import require_tasks  # It needs the options.

        require_tasks(info.data.get("site"), tasks)
        return tasks

    @field_validator("check")
    @classmethod
    def _find_check(cls, check: str | None, info: ValidationInfo) -> str | None:
        """Import the module from the folder of the settings: sessions find it imported."""
        from agentfly.environments.browser.sites.own import find_check  # It needs the options.

        if check is not None:
            find_check(check, base=(info.context or {}).get("base"))
        return check

    @field_validator("allow")
    @classmethod
    def _check_allow(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        parse_rules(allow)
        return allow

    @model_validator(mode="after")
    def _check_options_of_site(self) -> "BrowserOptions":
        self.refuse_without_effect(
            *(
                (self.site in sites, (name,), f"for site = {_listed(sites)}")
                for name, sites in SITES_OF_OPTIONS.items()
            ),
            *self._rules_of_shop(),
        )
        return self

    def _rules_of_shop(self) -> tuple[tuple[bool, tuple[str, ...], str], ...]:
        if self.site != "webshop":
            return ()
        return (
            (self.data is not None, ("full", "goals"), "for the official files, with `data`"),
            (self.data is None, ("level",), "for the generated catalog, without `data`"),
        )


def _listed(sites: tuple[SiteName, ...]) -> str:
    """Return names as settings have them.

    >>> _listed(("office", "webshop"))
    '"office" or "webshop"'
    """
    return " or ".join(f'"{site}"' for site in sites)
