"""The owner's side of the fork server."""

import asyncio
import itertools
import json
import socket
import sys
import sysconfig
import threading
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime.process import DEVNULL, Child, start
from agentfly.sandbox.box import (
    BoxFailedError,
    Channel,
    ChannelError,
    Ending,
    Isolation,
    UnsupportedError,
)
from agentfly.sandbox.inside import boot, cgroup, open_files, rootfs
from agentfly.sandbox.limits import SandboxLimits

START_SECONDS = 120.0
"""Starting a server and importing its packages, on a crowded machine."""
SPAWN_SECONDS = 30.0
"""Forking one sandbox, on a crowded machine."""
END_SECONDS = 30.0
"""From killing a sandbox to the server's report, on a crowded machine."""
CGROUP_SECONDS = 5.0
"""Maximum wait for the processes of a killed server to end."""
LIFETIME_SECONDS = 7 * 24 * 3600.0
RETRY_SECONDS = 0.002
"""Pause before a request is sent again to a server whose queue is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSettings:
    """The settings of one fork server; sandboxes with equal settings share it."""

    preload: tuple[str, ...]
    required: tuple[str, ...]
    """The packages of `preload` that the user asked for; the others may be missing."""
    readable: tuple[str, ...]


class PreloadError(ConfigError):
    """A package that was to be preloaded can't be imported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The layers of isolation that a server found on this machine."""

    landlock: int
    """ABI version; 0 if the kernel has none."""
    own_uids: bool
    """Whether each sandbox has a uid of its own outside."""
    watched: bool
    """Whether the memory of all processes of a sandbox together is watched."""
    cgroup: str | None
    """Folder of the server's cgroup, in which the kernel counts the memory of each sandbox."""
    no_cgroup: str | None
    """The reason if there is none."""

    @property
    def isolation(self) -> Isolation:
        """The level that they make."""
        return Isolation.WARM if self.landlock else Isolation.WARM_WITHOUT_LANDLOCK


class WarmServer:
    """A running fork server. Its requests may be made from any thread and event loop.

    Its reports are read in the event loop that started it. They come over a socket that no
    sandbox holds, so what they say of a sandbox's end is true, and so is the end of that socket.
    """

    def __init__(self, child: Child, control: socket.socket, layers: Layers) -> None:
        self._child = child
        self._control = control
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._endings: dict[int, Future[Ending | None]] = {}
        """The ending of each sandbox by its number; None if the server ended first."""
        self._gone = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._read_report)
        self.layers = layers

    @classmethod
    async def start(cls, settings: WarmSettings) -> "WarmServer":
        """Start a server and wait until it is warm.

        Raises:
            PreloadError: A package that was asked for can't be imported.
            UnsupportedError: The kernel refuses.
            BoxFailedError: It went wrong this time.
        """
        ours, theirs = _pair(socket.SOCK_SEQPACKET)
        try:
            with theirs:
                child = await _launch(settings, theirs)
        except BaseException:
            ours.close()
            raise
        try:
            async with asyncio.timeout(START_SECONDS):
                report = await _first_report(ours)
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
        return not self._gone and self._child.returncode is None

    async def spawn(self, limits: SandboxLimits, seed: int) -> "WarmBox":
        """Fork a sandbox."""
        number = next(self._numbers)
        ending = self._expect_ending(number)
        ours, theirs = _pair(socket.SOCK_STREAM)
        with theirs:
            request = {"op": "spawn", "id": number, "limits": limits.to_dict(), "seed": seed}
            try:
                await self.send_request(request, theirs.fileno())
            except BaseException:
                ours.close()
                self._endings.pop(number, None)
                raise
        ours.setblocking(False)  # noqa: FBT003 - takes no keywords
        reader, writer = await asyncio.open_connection(sock=ours)
        box = WarmBox(self, number, Channel(reader, writer), ending)
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                await box.ready()
        except BaseException as error:
            self._endings.pop(number, None)
            await box.close()
            if isinstance(error, TimeoutError):
                raise BoxFailedError(f"no sandbox within {SPAWN_SECONDS:g} s") from error
            raise
        return box

    async def send_request(self, request: dict[str, Any], *descriptors: int) -> None:
        """Send a request."""
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
        self._lose()
        self._control.close()
        await self._child.close(grace=0)
        if self.layers.cgroup is not None:
            await _remove_cgroup(Path(self.layers.cgroup))

    def _expect_ending(self, number: int) -> "Future[Ending | None]":
        ending: Future[Ending | None] = Future()
        ending.set_running_or_notify_cancel()  # A waiter that is cancelled can't cancel it.
        with self._lock:
            if self._gone:
                raise BoxFailedError("the fork server has gone")
            self._endings[number] = ending
        return ending

    def _read_report(self) -> None:
        """Read how a sandbox ended, or that the server did."""
        try:
            data = self._control.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        report = json.loads(data)
        if ending := self._endings.pop(report["id"], None):
            ending.set_result(Ending(code=report["code"], cause=report["cause"]))

    def _lose(self) -> None:
        """Note that the server has ended, and with it all its sandboxes."""
        self._loop.remove_reader(self._control)
        with self._lock:
            self._gone = True
            lost = [self._endings.pop(number) for number in list(self._endings)]
        for ending in lost:
            ending.set_result(None)


class WarmBox:
    """A forked sandbox."""

    def __init__(
        self,
        server: WarmServer,
        number: int,
        channel: Channel,
        ending: "Future[Ending | None]",
    ) -> None:
        self._server = server
        self._number = number
        self._closed = False
        self._ending = ending
        self.channel = channel

    async def ready(self) -> None:
        """Wait until it is confined; raise BoxFailedError if that failed."""
        try:
            greeting = await self.channel.greeting()
        except ChannelError as error:
            raise BoxFailedError(f"a sandbox ended before it was ready: {error}") from error
        if "ready" not in greeting:
            raise BoxFailedError(f"a sandbox could not be confined: {greeting.get('failed')}")

    async def interrupt(self) -> None:
        """Send it SIGINT, for the cell of the last request."""
        self.channel.interrupt(self.channel.number)
        await self._server.send_request({"op": "interrupt", "id": self._number})

    async def end(self) -> Ending:
        """Kill it and return how it ended, as its server reports.

        A server that runs and is late with its report has not ended the sandbox, so the sandbox
        itself caused this call.
        """
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.close()
                ending = await asyncio.wrap_future(self._ending)
        except TimeoutError:
            return Ending()
        if ending is None:
            raise BoxFailedError("the fork server has crashed")
        return ending

    async def close(self) -> None:
        """Kill it, and with it everything in its pid namespace.

        The request is sent even if this call is cancelled while the server's queue is full.
        """
        if self._closed:
            return
        self._closed = True
        self.channel.close()
        if self._server.alive:
            await asyncio.shield(self._server.send_request({"op": "kill", "id": self._number}))


def readable_folders() -> tuple[str, ...]:
    """Return where this Python and its packages are; what `.pth` files add is left out."""
    paths = sysconfig.get_paths()
    folders = {sys.base_prefix, sys.prefix, paths["purelib"], paths["platlib"], paths["stdlib"]}
    return tuple(sorted(folders - {"/"}))


async def _remove_cgroup(path: Path) -> None:
    """Remove a dead server's cgroup, once the kernel has ended all that was in it."""
    with suppress(TimeoutError):  # The next server that starts removes it.
        async with asyncio.timeout(CGROUP_SECONDS):
            while not cgroup.remove(path):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(RETRY_SECONDS)


def _pair(kind: socket.SocketKind) -> tuple[socket.socket, socket.socket]:
    try:
        return socket.socketpair(socket.AF_UNIX, kind)
    except OSError as error:
        raise BoxFailedError(open_files.explain(error) or str(error)) from error


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
    except (OSError, ConfigError) as error:
        if (reason := open_files.explain(error)) is None:
            raise
        raise BoxFailedError(reason) from error


def environment() -> dict[str, str]:
    """Return all variables that code in a sandbox sees: none of them is this process's own."""
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": rootfs.WORK,
        "TMPDIR": f"{rootfs.BOX}/tmp",
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{rootfs.BOX}/tmp",
        # The server must have one thread only, and a sandbox few.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
    }


async def _first_report(control: socket.socket) -> dict[str, Any]:
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
