"""Choosing the best isolation that this machine offers, or refusing."""

import asyncio
import logging
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from agentfly.errors import ConfigError
from agentfly.runtime.process import DEVNULL, PIPE, start
from agentfly.sandbox.box import Box, BoxFailedError, UnsupportedError
from agentfly.sandbox.inside import kernel, seccomp
from agentfly.sandbox.isolation import Isolation
from agentfly.sandbox.keeper import keeper
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.process_box import ProcessLauncher
from agentfly.sandbox.warm import WarmSettings, readable_folders

ALWAYS_PRELOADED = ("numpy", "numpy.random", "sympy")
"""Imported once for all sandboxes, where they are installed."""

NO_LANDLOCK = "this kernel has no Landlock"
BOOT_LANDLOCK = "boot a kernel of version 5.13 or newer with `landlock` in its `lsm=` list"
ALLOW_NAMESPACES = (
    "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, its seccomp profile)"
)
BUBBLEWRAP_SECONDS = 30.0
"""For one trial, on a crowded machine."""
_WARM = (Isolation.WARM, Isolation.WARM_WITHOUT_LANDLOCK)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """The isolation that was asked for, and what code may see."""

    preload: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    isolation: Isolation | None = None
    """None means the best that needs no daemon."""
    unsafe: bool = False

    def __post_init__(self) -> None:
        for path in self.readable:
            if not Path(path).is_absolute() or not Path(path).exists():
                raise ConfigError(f"`readable` takes absolute paths that exist, got {path!r}")
        if self.isolation is Isolation.UNSAFE and not self.unsafe:
            raise ConfigError(
                "isolation='unsafe' runs code without any isolation: add unsafe=True if you trust "
                "the code as your own, or leave isolation out for the best level of this machine"
            )


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
    if level.isolation not in (None, *_WARM):
        return ProcessLauncher(level.isolation, level.readable)
    try:
        server = await keeper().server(warm_settings(level.preload, level.readable))
    except UnsupportedError as error:
        if level.isolation is not None:
            raise
        lesser = await _lesser(str(error), unsafe=level.unsafe)
        _warn_once(lesser, f"packages are not preloaded. The level 'warm' can't be had: {error}")
        return ProcessLauncher(lesser, level.readable)
    found = server.layers.isolation
    if found is not Isolation.WARM and level.isolation is Isolation.WARM:
        raise UnsupportedError(f"{NO_LANDLOCK}: {BOOT_LANDLOCK}, or choose isolation='{found}'")
    if found is not Isolation.WARM and level.isolation is None:
        weaker = f"nothing but namespaces keeps code from files outside, as {NO_LANDLOCK}"
        _warn_once(found, f"{weaker}. To have both, {BOOT_LANDLOCK}")
    return server


async def _lesser(reason: str, *, unsafe: bool) -> Isolation:
    """Return the best level of those that need no fork server."""
    refusal = await bubblewrap_refusal()
    if refusal is None:
        return Isolation.BUBBLEWRAP
    if unsafe:
        return Isolation.UNSAFE
    raise ConfigError(
        f"this machine offers no isolation for untrusted code. Namespaces: {reason}. Bubblewrap: "
        f"{refusal}. Ways out: {ALLOW_NAMESPACES}; install bubblewrap; choose isolation='docker' "
        "or 'podman'; or say unsafe=True if you trust the code as your own"
    )


async def bubblewrap_refusal() -> str | None:
    """Return why `bwrap` makes no namespaces here; None if it does."""
    if not shutil.which("bwrap"):
        return "not installed"
    command = ["bwrap", "--unshare-all", "--uid", "1000", "--ro-bind", "/", "/", "true"]
    try:
        child = await start(command, name="bwrap", lifetime=60.0, stdout=DEVNULL, stderr=PIPE)
        async with child, asyncio.timeout(BUBBLEWRAP_SECONDS):
            assert child.stderr is not None, "asked for by PIPE"
            said = await child.stderr.read()
            code = await child.wait()
    except (OSError, TimeoutError) as error:
        raise BoxFailedError(f"bwrap: {error!r}") from error
    return None if code == 0 else said.decode(errors="replace").strip() or f"exit code {code}"


@cache
def _warn_once(level: Isolation, consequence: str) -> None:
    _log.warning("sandboxes are of the level '%s': %s", level, consequence)


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
