"""Choose the best isolation that this machine offers, or refuse; probe what it offers."""

import asyncio
import atexit
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from agentfly.errors import ConfigError
from agentfly.runtime.background import in_background
from agentfly.runtime.process import DEVNULL, PIPE, reap, start
from agentfly.runtime.threads import WorkerThreads
from agentfly.sandbox.box import Box, BoxFailedError, Isolation, UnsupportedError
from agentfly.sandbox.inside import kernel, open_files, seccomp
from agentfly.sandbox.inside.denied_calls import DENIED
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.process_box import ProcessLauncher
from agentfly.sandbox.warm import Layers, PreloadError, WarmServer, WarmSettings, readable_folders

CLOSE_SECONDS = 10.0
"""Maximum time that the end of this process waits for the end of its servers."""


class WarmServers:
    """The fork servers of this process, shared by all its event loops.

    A server outlives the event loop of the run that started it, because importing its packages
    takes seconds. So servers belong to the event loop of `agentfly.runtime.background`.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._servers: dict[WarmSettings, WarmServer] = {}
        self._hopeless: dict[WarmSettings, Callable[[], Exception]] = {}
        self._reaped = False
        self._starting = asyncio.Lock()
        atexit.register(self.close)

    @property
    def mine(self) -> bool:
        """Whether it belongs to this process, and not to one that this was forked from."""
        return self._pid == os.getpid()

    async def server(self, settings: WarmSettings) -> WarmServer:
        """Return a live server with these settings, started if need be.

        One that the kernel refuses is tried once; one that failed otherwise, again each time.
        """
        return await asyncio.wrap_future(in_background(self._server(settings)))

    def close(self) -> None:
        """End all servers."""
        if self.mine and self._servers:
            in_background(self._close_servers()).result(CLOSE_SECONDS)

    async def _server(self, settings: WarmSettings) -> WarmServer:
        async with self._starting:
            if settings in self._hopeless:
                raise self._hopeless[settings]()
            server = self._servers.get(settings)
            if server is None or not server.alive:
                if server is not None:
                    await server.close()
                server = self._servers[settings] = await self._start(settings)
            return server

    async def _start(self, settings: WarmSettings) -> WarmServer:
        if not self._reaped:  # What killed runs left behind is ended before anything new begins.
            await WorkerThreads(size=1).run(reap, name="reap")
            open_files.raise_limit()  # Each sandbox takes a descriptor of this process.
            self._reaped = True
        try:
            return await WarmServer.start(settings)
        except (UnsupportedError, PreloadError) as error:
            self._hopeless[settings] = partial(type(error), str(error))
            raise

    async def _close_servers(self) -> None:
        while self._servers:
            _, server = self._servers.popitem()
            await server.close()


_warm_servers: list[WarmServers] = []
_lock = threading.Lock()


def warm_servers() -> WarmServers:
    """Return the servers of this process; a forked process has its own."""
    with _lock:
        if not _warm_servers or not _warm_servers[-1].mine:
            _warm_servers.append(WarmServers())
        return _warm_servers[-1]


ALWAYS_PRELOADED = ("numpy", "numpy.random", "sympy")
"""Imported once for all sandboxes, where they are installed."""

NO_LANDLOCK = "this kernel has no Landlock"
BOOT_LANDLOCK = "boot a kernel of version 5.13 or newer with `landlock` in its `lsm=` list"
ALLOW_NAMESPACES = (
    "allow user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone=1, "
    "kernel.apparmor_restrict_unprivileged_userns=0; in a container, its seccomp profile)"
)
BUBBLEWRAP_SECONDS = 30.0
"""Time limit of one trial, on a crowded machine."""
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
        server = await warm_servers().server(warm_settings(level.preload, level.readable))
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
    if sys.platform != "linux":
        raise ConfigError(
            "this machine offers no isolation for untrusted code: sandboxes need Linux, got "
            f"{sys.platform}. Ways out: choose isolation='docker' or 'podman'; run on Linux; or "
            "say unsafe=True if you trust the code as your own"
        )
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
        raise UnsupportedError(f"namespaces are Linux's, and this is {sys.platform}")
    if not seccomp.is_known(kernel.machine()):
        raise UnsupportedError(f"the list of system calls does not know {kernel.machine()}")
    return WarmSettings(
        preload=tuple(dict.fromkeys((*always, *preload))),
        required=preload,
        readable=(*readable_folders(), *readable),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The isolation that was found."""

    isolation: Isolation | None
    """The level that sandboxes get by default; None if they are refused, or if it could
    not be found out: `missing` says which."""
    layers: tuple[str, ...] = ()
    """The layers in force, for people: "Landlock 7"."""
    missing: tuple[str, ...] = ()
    """Reasons against better levels, for people: "namespaces: unshare: not permitted"."""
    engines: tuple[str, ...] = ()
    """Which of Docker and Podman are installed, to be had by choice."""


async def probe() -> Probe:
    """Make a sandbox of the best level that works here, and return what protects it.

    A lesser level is named only where the kernel refuses the better one: so do sandboxes choose.
    """
    engines = tuple(name for name in ("docker", "podman") if shutil.which(name))
    try:
        layers = await _try_warm_twice()
    except UnsupportedError as error:
        missing = [f"namespaces: {error}"]
    except BoxFailedError as error:
        unknown = f"namespaces: not refused, but they failed twice ({error}): is the machine busy?"
        return Probe(isolation=None, missing=(unknown,), engines=engines)
    else:
        return Probe(
            isolation=layers.isolation,
            layers=_names(layers),
            missing=() if layers.landlock else (f"Landlock: {NO_LANDLOCK}",),
            engines=engines,
        )
    try:
        await _try_bubblewrap()
        return Probe(isolation=Isolation.BUBBLEWRAP, missing=tuple(missing), engines=engines)
    except BoxFailedError as error:
        missing.append(f"bubblewrap: {error}")
    return Probe(isolation=None, missing=tuple(missing), engines=engines)


async def _try_warm_twice() -> Layers:
    """Try again what failed and was not refused: on a crowded machine it may have come too late."""
    try:
        return await _try_warm()
    except UnsupportedError:
        raise
    except BoxFailedError:
        return await _try_warm()


async def _try_warm() -> Layers:
    server = await WarmServer.start(warm_settings((), (), always=()))
    try:
        box = await server.spawn(SandboxLimits(), seed=0)
        await box.close()
    finally:
        await server.close()
    return server.layers


async def _try_bubblewrap() -> None:
    if (refusal := await bubblewrap_refusal()) is not None:
        raise BoxFailedError(refusal)
    launcher = ProcessLauncher(Isolation.BUBBLEWRAP, ())
    box = await launcher.spawn(SandboxLimits(), seed=0)
    await box.close()


def _names(layers: Layers) -> tuple[str, ...]:
    return (
        "user, mount, pid, network, ipc, uts and cgroup namespaces",
        f"Landlock {layers.landlock}" if layers.landlock else "no Landlock in this kernel",
        f"seccomp ({len(DENIED)} system calls denied)",
        "a uid for each sandbox" if layers.own_uids else "the uid of this user",
        "limits and a quota on the scratch folder",
        _counting(layers),
    )


def _counting(layers: Layers) -> str:
    """Name what bounds the memory of all processes of a sandbox together."""
    watch = "a watch" if layers.watched else "no watch, as /proc is masked"
    if layers.cgroup:
        return f"memory of all processes: a cgroup, and {watch}"
    return f"memory of all processes: {watch}; no cgroup ({layers.no_cgroup})"
