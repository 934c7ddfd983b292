"""Finding Chromium on this machine, without starting it or importing the environment."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from agentfly.errors import ConfigError

VARIABLE = "AGENTFLY_CHROMIUM"
"""Environment variable with the path of a Chromium or Chrome to use."""
COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""Names under which systems install it, in order of preference."""
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables that name the display of a person at a Linux machine."""

INSTALL = (
    "sudo apt-get install chromium, or python -m playwright install chromium, or set "
    f"{VARIABLE} to the path of one"
)
"""How to get a Chromium."""


def find_chromium() -> Path | None:
    """Return the Chromium to use; None if there is none."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen) if shutil.which(chosen) else None
    for command in COMMANDS:
        if found := shutil.which(command):
            return Path(found)
    return next(_playwright_builds(), None)


def missing_chromium() -> str | None:
    """Return that Chromium is missing and how to install it; None if it is there."""
    if find_chromium() is not None:
        return None
    if chosen := os.environ.get(VARIABLE):
        return f"{VARIABLE} names {chosen!r}, which is no program that can be run"
    return f"it needs Chromium: {INSTALL}"


def require_chromium() -> Path:
    """Return the Chromium to use; ConfigError with the way to install it."""
    found = find_chromium()
    if found is None:
        raise ConfigError(f"the browser can't be started: {missing_chromium()}")
    return found


def require_display() -> None:
    """Raise ConfigError if there is no display for a window; macOS and Windows have one always."""
    if sys.platform == "linux" and not any(os.environ.get(name) for name in DISPLAYS):
        raise ConfigError(
            "the browser's window needs a display, and neither DISPLAY nor WAYLAND_DISPLAY is set: "
            "leave out --headed (headed = true), log in with a desktop or ssh -X, or start it with "
            "xvfb-run"
        )


def _playwright_builds() -> Iterator[Path]:
    """Yield the builds that Playwright has fetched for this user, newest first."""
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "~/.cache/ms-playwright")
    for pattern in ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*/*/*/Chromium"):
        yield from sorted(Path(folder).expanduser().glob(pattern), reverse=True)
