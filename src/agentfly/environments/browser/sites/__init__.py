"""The sites of tasks: MiniWoB, a generated office, the shop of `webshop`, and users' own."""

from collections.abc import Mapping
from typing import Any

from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.site import Site
from agentfly.environments.browser.sites.miniwob import MiniWobSite
from agentfly.environments.browser.sites.office import OfficeSite
from agentfly.environments.browser.sites.office_data import TASKS
from agentfly.environments.browser.sites.own import OwnSite, find_check, require_row
from agentfly.errors import ConfigError
from agentfly.runtime.names import require_name


def make_site(row: Mapping[str, Any], options: BrowserOptions) -> Site:
    """Make the site of a task's row. It may take seconds: run it in a thread."""
    match row:
        case {"site": "miniwob", "task": str(task), "seed": int(seed)}:
            return MiniWobSite(task, seed)
        case {"site": "office", "task": str(task), "seed": int(seed)}:
            return OfficeSite(require_name(task, TASKS, "office task"), seed, options.level)
        case {"site": "webshop", "asin": str()}:
            return _shop(row, options)
        case {"start": str()}:
            check = find_check(options.check) if options.check else None
            return OwnSite(require_row(row, has_check=check is not None), options.allow, check)
    raise ConfigError(
        "a task of the browser is a row of its own tasks, or has a start address, an instruction "
        f"and a check; got {dict(row)!r}"
    )


def _shop(row: Mapping[str, Any], options: BrowserOptions) -> Site:
    from agentfly.environments.browser.sites.webshop import WebShopSite, shop_options

    return WebShopSite(row, shop_options(options))
