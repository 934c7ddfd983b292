"""Choosing the best isolation that this machine offers, or refusing."""

import logging
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from agentfly.errors import ConfigError
from agentfly.sandbox.box import Box, UnsupportedError
from agentfly.sandbox.inside import kernel, seccomp
from agentfly.sandbox.isolation import Isolation
from agentfly.sandbox.keeper import keeper
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.process import ProcessLauncher
from agentfly.sandbox.warm import WarmSettings, readable_folders

ALWAYS_PRELOADED = ("numpy", "numpy.random", "sympy")
"""Imported once for all sandboxes, where they are installed."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What a sandbox was asked to be."""

    preload: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    isolation: Isolation | None = None
    """None means the best that needs no daemon."""
    unsafe: bool = False


class Launcher(Protocol):
    """Makes sandboxes."""

    async def spawn(self, limits: SandboxLimits, seed: int) -> Box:
        """Make one; raise BoxFailedError if that can't be."""


async def choose(level: Level) -> Launcher:
    """Return what makes sandboxes of this level.

    Raises:
        ConfigError: No isolation can be had, and running without was not asked for; or a package
            can't be preloaded.
        BoxFailedError: The level that was insisted on can't be had, or the best failed although
            the kernel offers it.
    """
    if level.isolation not in (None, Isolation.WARM):
        return ProcessLauncher(level.isolation, level.readable)
    try:
        return await keeper().server(warm_settings(level.preload, level.readable))
    except UnsupportedError as error:
        if level.isolation is Isolation.WARM:
            raise
        reason = str(error)
    lesser = _lesser(reason, unsafe=level.unsafe)
    _warn_once(lesser, reason)
    return ProcessLauncher(lesser, level.readable)


def _lesser(reason: str, *, unsafe: bool) -> Isolation:
    """Return the best level of those that need no fork server."""
    if shutil.which("bwrap"):
        return Isolation.BUBBLEWRAP
    if unsafe:
        return Isolation.UNSAFE
    raise ConfigError(
        f"this machine offers no isolation for untrusted code. Namespaces: {reason}. Bubblewrap: "
        "not installed. Install bubblewrap, choose isolation='docker' or 'podman', or say "
        "unsafe=True if you trust the code as your own"
    )


@cache
def _warn_once(lesser: Isolation, reason: str) -> None:
    _log.warning(
        "sandboxes are of the level %r, where packages are not preloaded: the level 'warm' can't "
        "be had (%s)",
        str(lesser),
        reason,
    )


def warm_settings(
    preload: tuple[str, ...],
    readable: tuple[str, ...],
    *,
    always: tuple[str, ...] = ALWAYS_PRELOADED,
) -> WarmSettings:
    """Describe a fork server; raise UnsupportedError where there can be none."""
    if sys.platform != "linux":
        raise UnsupportedError(f"{sys.platform} has none")
    if not seccomp.is_known(kernel.machine()):
        raise UnsupportedError(f"the list of system calls does not know {kernel.machine()}")
    return WarmSettings(
        preload=tuple(dict.fromkeys((*always, *preload))),
        required=preload,
        readable=(*readable_folders(), *readable),
    )
