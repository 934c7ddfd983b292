"""The owner's side of the fork server."""

import asyncio
import itertools
import json
import socket
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime.process import DEVNULL, Child, start
from agentfly.sandbox.box import BoxFailedError, UnsupportedError
from agentfly.sandbox.channel import Channel, SandboxDiedError
from agentfly.sandbox.inside import boot, stage
from agentfly.sandbox.limits import SandboxLimits

START_SECONDS = 120.0
"""Starting a server and importing its packages, on a crowded machine."""
SPAWN_SECONDS = 30.0
"""Forking one sandbox, on a crowded machine."""
LIFETIME_SECONDS = 7 * 24 * 3600.0
RETRY_SECONDS = 0.002
"""How soon to knock again at a server whose queue is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSettings:
    """What makes one server different from another."""

    preload: tuple[str, ...]
    required: tuple[str, ...]
    """Those of `preload` that somebody asked for; the others may be lacking."""
    readable: tuple[str, ...]


class PreloadError(ConfigError):
    """A package that was to be preloaded can't be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """What a server found of this machine."""

    landlock: int
    """ABI version; 0 if the kernel has none."""
    own_uids: bool
    """Whether each sandbox has a uid of its own outside."""
    watched: bool
    """Whether the memory of all processes of a sandbox together is watched."""


class WarmServer:
    """A running fork server. Its requests may be made from any thread and event loop."""

    def __init__(self, child: Child, control: socket.socket, layers: Layers) -> None:
        self._child = child
        self._control = control
        self._numbers = itertools.count()
        self.layers = layers

    @classmethod
    async def start(cls, settings: WarmSettings) -> "WarmServer":
        """Start a server and wait until it is warm.

        Raises:
            PreloadError: A package that was asked for can't be imported.
            UnsupportedError: The kernel refuses.
            BoxFailedError: It went wrong this time.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                child = await _launch(settings, theirs)
        except BaseException:
            ours.close()
            raise
        try:
            async with asyncio.timeout(START_SECONDS):
                report = await _first_word(ours)
            return cls(child, ours, _layers(report, settings))
        except BaseException as error:
            ours.close()
            await child.close(grace=0)
            if isinstance(error, TimeoutError):
                text = f"the fork server was not ready within {START_SECONDS:g} s"
                raise BoxFailedError(text) from error
            raise

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._child.returncode is None

    async def spawn(self, limits: SandboxLimits, seed: int) -> "WarmBox":
        """Fork a sandbox."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        with theirs:
            request = {"op": "spawn", "id": number, "limits": limits.to_dict(), "seed": seed}
            try:
                await self.tell(request, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)  # noqa: FBT003 - takes no keywords
        reader, writer = await asyncio.open_connection(sock=ours)
        box = WarmBox(self, number, Channel(reader, writer))
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                await box.ready()
        except BaseException as error:
            await box.close()
            if isinstance(error, TimeoutError):
                raise BoxFailedError(f"no sandbox within {SPAWN_SECONDS:g} s") from error
            raise
        return box

    async def tell(self, request: dict[str, Any], *descriptors: int) -> None:
        """Send a request; it is not answered."""
        data = json.dumps(request).encode()
        while True:
            try:
                socket.send_fds(self._control, [data], descriptors, socket.MSG_DONTWAIT)
            except BlockingIOError:
                await asyncio.sleep(RETRY_SECONDS)
            except OSError as error:
                raise BoxFailedError(f"the fork server has gone: {error}") from error
            else:
                return

    async def close(self) -> None:
        """End the server and all its sandboxes."""
        self._control.close()
        await self._child.close(grace=0)


class WarmBox:
    """A forked sandbox."""

    announces_its_end = True

    def __init__(self, server: WarmServer, number: int, channel: Channel) -> None:
        self._server = server
        self._number = number
        self._closed = False
        self.channel = channel

    async def ready(self) -> None:
        """Wait until it is confined; raise BoxFailedError if that failed."""
        try:
            word = await self.channel.receive()
        except SandboxDiedError as error:
            raise BoxFailedError(f"a sandbox died at its birth: {error}") from error
        if "ready" not in word:
            raise BoxFailedError(f"a sandbox could not be confined: {word.get('failed')}")

    async def interrupt(self) -> None:
        """Send it SIGINT."""
        await self._server.tell({"op": "interrupt", "id": self._number})

    async def close(self) -> None:
        """Kill it, and with it everything in its pid namespace.

        The server is told even if this call is cancelled while the server's queue is full.
        """
        if self._closed:
            return
        self._closed = True
        self.channel.close()
        if self._server.alive:
            await asyncio.shield(self._server.tell({"op": "kill", "id": self._number}))


def readable_folders() -> tuple[str, ...]:
    """Return where this Python and its packages are; what `.pth` files add is left out."""
    paths = sysconfig.get_paths()
    folders = {sys.base_prefix, sys.prefix, paths["purelib"], paths["platlib"], paths["stdlib"]}
    return tuple(sorted(folders - {"/"}))


async def _launch(settings: WarmSettings, control: socket.socket) -> Child:
    arguments = {"preload": settings.preload, "readable": settings.readable}
    try:
        return await start(
            [sys.executable, "-I", boot.__file__, json.dumps(arguments)],
            name="python sandboxes",
            lifetime=LIFETIME_SECONDS,
            env=environment(),
            stdin=control.fileno(),
            stdout=DEVNULL,
            stderr=DEVNULL,
        )
    except DeadlineError as error:
        raise BoxFailedError(str(error)) from error


def environment() -> dict[str, str]:
    """Return all variables that code in a sandbox sees: none of them is this process's own."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": stage.WORK,
        "TMPDIR": f"{stage.BOX}/tmp",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{stage.BOX}/tmp",
        # The server must have one thread only, and a sandbox few.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }


async def _first_word(control: socket.socket) -> dict[str, Any]:
    control.setblocking(False)  # noqa: FBT003 - takes no keywords
    data = await asyncio.get_running_loop().sock_recv(control, 1 << 16)
    if not data:
        raise BoxFailedError("the fork server ended before it was ready")
    report: dict[str, Any] = json.loads(data)
    return report


def _layers(report: dict[str, Any], settings: WarmSettings) -> Layers:
    if "failed" in report:
        kind = UnsupportedError if report["refused"] else BoxFailedError
        raise kind(report["failed"])
    reasons = report["unimportable"]
    if faults := [f"{name} ({reasons[name]})" for name in settings.required if name in reasons]:
        raise PreloadError(
            f"can't preload {', '.join(faults)}: correct the name, or install the package beside "
            "agentfly and start this program again"
        )
    return Layers(**report["layers"])
