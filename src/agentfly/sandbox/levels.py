"""Choosing the best isolation that this machine offers, or refusing."""

import shutil
import sys
from dataclasses import dataclass
from typing import Protocol

from agentfly.errors import ConfigError
from agentfly.sandbox.box import Box, BoxFailedError
from agentfly.sandbox.inside import kernel, seccomp
from agentfly.sandbox.isolation import Isolation
from agentfly.sandbox.keeper import keeper
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.process import ProcessLauncher
from agentfly.sandbox.warm import WarmSettings, readable_folders

ALWAYS_PRELOADED = ("numpy", "numpy.random", "sympy")
"""Imported once for all sandboxes, where they are installed."""


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
        ConfigError: No isolation can be had, and running without was not asked for.
        BoxFailedError: The level that was insisted on can't be had.
    """
    readable = level.readable
    if level.isolation not in (None, Isolation.WARM):
        return ProcessLauncher(level.isolation, readable)
    try:
        return await keeper().server(warm_settings(level.preload, readable))
    except BoxFailedError as error:
        if level.isolation is Isolation.WARM:
            raise
        reason = str(error)
    if shutil.which("bwrap"):
        return ProcessLauncher(Isolation.BUBBLEWRAP, readable)
    if level.unsafe:
        return ProcessLauncher(Isolation.UNSAFE, readable)
    raise ConfigError(
        f"this machine offers no isolation for untrusted code. Namespaces: {reason}. Bubblewrap: "
        "not installed. Install bubblewrap, choose isolation='docker' or 'podman', or say "
        "unsafe=True if you trust the code as your own"
    )


def warm_settings(
    preload: tuple[str, ...],
    readable: tuple[str, ...],
    *,
    always: tuple[str, ...] = ALWAYS_PRELOADED,
) -> WarmSettings:
    """Describe a fork server; raise BoxFailedError where there can be none."""
    if sys.platform != "linux":
        raise BoxFailedError(f"{sys.platform} has none")
    if not seccomp.is_known(kernel.machine()):
        raise BoxFailedError(f"the list of system calls does not know {kernel.machine()}")
    return WarmSettings(
        preload=tuple(dict.fromkeys((*always, *preload))),
        required=preload,
        readable=(*readable_folders(), *readable),
    )
