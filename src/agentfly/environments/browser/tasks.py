"""The rows of tasks: which to train on, and which are held out."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agentfly.environments.browser.experts.miniwob import EXPERTS
from agentfly.environments.browser.options import BrowserOptions, SiteName, Tasks
from agentfly.environments.browser.sites import miniwob
from agentfly.environments.browser.sites.office_data import TASKS
from agentfly.environments.browser.sites.own import read_rows
from agentfly.errors import ConfigError
from agentfly.runtime.names import require_name

Row = dict[str, Any]

HELD_OUT_SEED = 1_000_000
"""The first seed that is never trained on."""


def training_rows(options: BrowserOptions) -> list[Row]:
    """Return the rows to train on."""
    if options.site == "webshop":
        return _shop_rows(options, held_out=False)
    if options.site == "own":
        return read_rows(_require_file(options.rows), has_check=options.check is not None)
    names = [name for name in chosen_tasks(options) if name not in options.held_out]
    if not names:
        raise ConfigError("all tasks are held out: name some more in `tasks`")
    return list(_seeded(options.site, names, range(options.episodes)))


def held_out_rows(options: BrowserOptions) -> list[Row]:
    """Return the held-out rows: other seeds of the same tasks, and the tasks held out."""
    if options.site == "webshop":
        return _shop_rows(options, held_out=True)
    if options.site == "own":
        rows = _require_file(options.eval_rows or options.rows)
        return read_rows(rows, has_check=options.check is not None)
    names = dict.fromkeys([*chosen_tasks(options), *options.held_out])
    seeds = range(HELD_OUT_SEED, HELD_OUT_SEED + options.eval_episodes)
    return list(_seeded(options.site, names, seeds))


def chosen_tasks(options: BrowserOptions) -> list[str]:
    """Return the names of the chosen tasks, the held-out ones among them."""
    chosen = options.tasks
    if chosen in ("all", "learnable"):
        if options.site == "office":
            return list(TASKS)
        return list(miniwob.task_names() if chosen == "all" else EXPERTS)
    return list(dict.fromkeys(_names(chosen)))


def require_tasks(site: SiteName | None, tasks: Tasks) -> None:
    """Raise ConfigError with the nearest names for tasks that a site does not have."""
    for name in () if tasks in ("all", "learnable") else _names(tasks):
        if site == "miniwob":
            miniwob.require_task(name)
        elif site == "office":
            require_name(name, TASKS, "office task")


def task_choices(options: BrowserOptions) -> dict[str, tuple[str, ...]]:
    """Return what the option `tasks` takes; nothing for a site without named tasks."""
    if options.site == "office":
        names = tuple(TASKS)
    elif options.site == "miniwob" and miniwob.is_installed():
        names = miniwob.task_names()
    else:
        return {}
    return {"tasks": ("all", "learnable", *names)}


def _names(tasks: Tasks) -> tuple[str, ...]:
    return (tasks,) if isinstance(tasks, str) else tasks


def _seeded(site: str, names: Iterable[str], seeds: range) -> Iterable[Row]:
    """Yield every task with every seed, all tasks of a seed together."""
    names = list(names)
    for seed in seeds:
        for name in names:
            yield {"id": f"{site}-{name}-{seed}", "site": site, "task": name, "seed": seed}


def _shop_rows(options: BrowserOptions, *, held_out: bool) -> list[Row]:
    from agentfly.environments.browser.sites.webshop import shop_options
    from agentfly.environments.webshop.shop import held_out_tasks, training_tasks

    rows = (held_out_tasks if held_out else training_tasks)(shop_options(options))
    return [{"site": "webshop", **row} for row in rows]


def _require_file(rows: Path | None) -> Path:
    if rows is None:
        raise ConfigError(
            'site = "own" needs a file of tasks: rows = "tasks.jsonl", each with start, '
            "instruction and check"
        )
    return rows
