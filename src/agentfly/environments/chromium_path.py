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
SHELLS = (Path("/usr/lib/chromium/chromium-headless-shell"),)
"""Builds without windows, which open a context in less than half the processor time. The command
on Debian's PATH is a script that starts this program as a child, of which nobody has the number."""
_BUILDS = ("chromium-*/chrome-linux*/chrome", "chromium-*/chrome-mac*/*/*/*/Chromium")
_SHELL_BUILDS = ("chromium_headless_shell-*/chrome-*/*headless*shell",)
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
"""Environment variables that name the display of a person at a Linux machine."""

_INSTALL = (
    "sudo apt-get install chromium, or python -m playwright install chromium, or set "
    f"{VARIABLE} to the path of one"
)


def find_chromium(*, headed: bool = False) -> Path | None:
    """Return the Chromium to use; None if there is none. Without a window, a shell is preferred."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen) if shutil.which(chosen) else None
    if not headed and (shell := next(filter(Path.is_file, SHELLS), None)):
        return shell
    for command in COMMANDS:
        if found := shutil.which(command):
            return Path(found)
    return next(_playwright_builds(*_BUILDS if headed else (*_SHELL_BUILDS, *_BUILDS)), None)


def missing_chromium() -> str | None:
    """Return that Chromium is missing and how to install it; None if it is there."""
    if find_chromium() is not None:
        return None
    if chosen := os.environ.get(VARIABLE):
        return f"{VARIABLE} names {chosen!r}, which is no program that can be run"
    return f"it needs Chromium: {_INSTALL}"


def require_chromium(*, headed: bool = False) -> Path:
    """Return the Chromium to use; ConfigError with the way to install it."""
    found = find_chromium(headed=headed)
    if found is None and find_chromium() is not None:
        raise ConfigError(f"{find_chromium()} has no window: {_INSTALL}")
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


def _playwright_builds(*patterns: str) -> Iterator[Path]:
    """Yield the builds that Playwright has fetched for this user, newest first."""
    folder = os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "~/.cache/ms-playwright")
    for pattern in patterns:
        yield from sorted(Path(folder).expanduser().glob(pattern), reverse=True)
