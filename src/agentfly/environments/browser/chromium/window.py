"""Checks that a browser can show a window, which a headless shell of Chromium never does."""

import re

from agentfly.environments.chromium_path import VARIABLE, require_chromium, require_display
from agentfly.errors import ConfigError

_SHELL = re.compile(r"headless[-_]shell")
"""Name of a build without windows: `chromium-headless-shell`, `chrome-headless-shell`,
`headless_shell`. It shows nothing and reports no error, and `--version` does not tell either."""


def require_window() -> None:
    """Raise ConfigError if the Chromium of this machine, or the lack of a display, allows none."""
    require_display()
    found = require_chromium()
    if _SHELL.search(found.resolve().name):
        raise ConfigError(no_window(f"{found} is a headless shell"))


def no_window(found: str) -> str:
    """Return that a Chromium has no window, and the way out."""
    return (
        f"the browser's window needs a whole Chromium, and {found}, which has no windows: leave "
        f"out --headed (headed = true), or set {VARIABLE} to the path of another one, such as "
        "/usr/bin/chromium (sudo apt-get install chromium)"
    )
