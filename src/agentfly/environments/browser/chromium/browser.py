"""One Chromium: a child process that never outlives this one, watched and ended when it hangs."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agentfly.environments.browser.chromium.connection import (
    BrowserLostError,
    Connection,
    Params,
    ProtocolError,
)
from agentfly.environments.browser.chromium.context import BrowserContext
from agentfly.environments.browser.chromium.memory import DATA_LIMIT_KB, PageMemory
from agentfly.environments.browser.chromium.window import no_window, require_window
from agentfly.environments.chromium_path import require_chromium
from agentfly.errors import AgentFlyError, EnvError, boundary
from agentfly.runtime.background import in_background
from agentfly.runtime.launch import start_time
from agentfly.runtime.process import PIPE, Child, start

OPTIONS = (
    "--remote-debugging-pipe",
    # Nothing but what is intercepted, or goes through a context's own proxy, has a way out.
    "--proxy-server=socks5://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--no-sandbox",  # It does not start as root in a container otherwise.
    "--disable-gpu",
    "--disable-3d-apis",  # WebGL would fill a process that all chains share.
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-renderer-backgrounding",
    "--disable-sync",
    "--log-level=3",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--password-store=basic",
    # The pages of one context share a process; the popups of the address bar would have their own.
    "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,"
    "WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
)
_LAUNCH = f'ulimit -d {DATA_LIMIT_KB}; exec 3<&0 4>&1 </dev/null >/dev/null; exec "$0" "$@"'
"""Moves stdin and stdout to the descriptors 3 and 4, from which Chromium takes its commands."""
START_SECONDS = 120.0
"""Time limit of the start. It takes half a second, but a hundred times that under load."""
WATCH_SECONDS = 1.0
"""Interval of health checks, which also look at the memory."""
HANG_SECONDS = 30.0
"""A browser that does not answer a health check for this long is ended."""
EXIT_SECONDS = 5.0
"""Time for the exit code of a browser that has closed its pipe."""
LIFETIME = 24 * 3600.0
"""Maximum lifetime of a browser: a day."""
WARM_CONTEXTS = 1
"""Number of contexts that are kept ready for the next chains."""
ERROR_BYTES = 300
"""Maximum bytes of its last output in an error message."""
_PROFILE = "agentfly-browser"


class Browser:
    """A Chromium that is starting, running or ended, on the background event loop."""

    def __init__(self, memory: PageMemory, *, headed: bool = False) -> None:
        self.headed = headed
        self.leased = 0
        """Number of contexts in use; set by the pool."""
        self.idle_since = 0.0
        """Time when the last context was closed; set by the pool."""
        self.pid: int | None = None
        self.lost: str | None = None
        """Why it ended; None while it can be used."""
        self._memory = memory
        self._executable = require_chromium()
        if headed:
            require_window()
        self._connection: Connection | None = None
        self._ready = asyncio.Event()
        self._over = asyncio.Event()
        self._contexts: dict[str, BrowserContext] = {}
        self._sessions: dict[str, str] = {}
        """Contexts by the sessions of their tabs."""
        self._warm: deque[BrowserContext] = deque()
        self._group: asyncio.TaskGroup | None = None
        self._life = in_background(self._live())

    # ------------------------------------------------------------------ contexts

    async def open_context(self, proxy: str | None = None) -> BrowserContext:
        """Return a context of its own for a chain: one that is kept ready, or a new one.

        Raises:
            BrowserLostError: The browser ended or did not start.
        """
        await self._started()
        context = self._warm.popleft() if self._warm and proxy is None else None
        if context is None:
            context = await self._new_context(proxy)
        if proxy is None:
            self._spawn(self._refill())
        return context

    async def close_context(self, context: BrowserContext) -> None:
        """Close a context."""
        self._contexts.pop(context.id, None)
        with suppress(TimeoutError):
            await context.close()

    async def _new_context(self, proxy: str | None = None) -> BrowserContext:
        connection = self._require_connection()
        params: dict[str, object] = {"disposeOnDetach": True}
        if proxy is not None:
            params |= {"proxyServer": proxy, "proxyBypassList": "<-loopback>"}
        try:
            made = await connection.call("Target.createBrowserContext", params)
            context = BrowserContext(connection, made["browserContextId"], self._spawn)
            self._contexts[context.id] = context
            try:
                await context.open()
            except asyncio.CancelledError:
                self._contexts.pop(context.id)
                context.abandon()
                raise
        except (TimeoutError, ProtocolError) as error:
            reason = f"the browser could not open a context: {error!r}"
            self.end(reason)
            raise BrowserLostError(reason) from None
        return context

    async def _refill(self) -> None:
        with suppress(BrowserLostError):
            # A context that is kept ready would show its blank window above the task's.
            if len(self._warm) < WARM_CONTEXTS and not self.headed:
                self._warm.append(await self._new_context())

    async def _started(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            self.end(f"the browser did not start within {START_SECONDS:g} s")
        self._require_connection()

    def _require_connection(self) -> Connection:
        if self.lost is not None or self._connection is None:
            raise BrowserLostError(self.lost or "the browser is not running")
        return self._connection

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None or self.lost is not None:
            work.close()
        else:
            self._group.create_task(work)

    # ------------------------------------------------------------------ events

    def _on_event(self, method: str, params: Params) -> None:
        if method == "Target.attachedToTarget":
            self._attached(params["sessionId"], params["targetInfo"])
        elif method == "Target.detachedFromTarget":
            session = params["sessionId"]
            if context := self._contexts.get(self._sessions.pop(session, "")):
                context.detach(session)

    def _attached(self, session: str, target: Mapping[str, Any]) -> None:
        context = self._contexts.get(target.get("browserContextId", ""))
        if context is not None and target["type"] == "page":
            self._sessions[session] = context.id
            self._spawn(context.attach(target["targetId"], session))
        elif target["type"] != "service_worker":
            # Workers, and the browser's own first page: they are let go. Service workers, which
            # could answer requests in place of the network, wait for a debugger without end.
            connection = self._require_connection()
            connection.post("Runtime.runIfWaitingForDebugger", session=session)
            connection.post("Target.detachFromTarget", {"sessionId": session}, session=None)

    # ------------------------------------------------------------------ life

    def end(self, reason: str) -> None:
        """Kill it without waiting; calls in it fail with this reason."""
        if self.lost is None:
            self._lose(reason)
            self._life.cancel()

    async def wait(self) -> None:
        """Wait until it has ended."""
        await self._over.wait()

    def _lose(self, reason: str) -> None:
        self.lost = self.lost or reason
        if self._connection is not None:
            self._connection.lose(self.lost)
        for context in self._contexts.values():
            for tab in context.tabs:
                tab.close()
        self._ready.set()

    async def _live(self) -> None:
        try:
            with boundary(EnvError, "running the browser"), _profile_folder() as folder:
                await self._run(folder)
        except AgentFlyError as error:
            self._lose(f"the browser failed: {error}")
        finally:
            self._lose("the browser was ended")
            self._over.set()

    async def _run(self, folder: Path) -> None:
        errors = folder / "stderr"
        with errors.open("wb") as stderr:
            child = await start(
                self._command(folder),
                name="chromium",
                lifetime=LIFETIME,
                env={**os.environ, "HOME": str(folder)},
                stdin=PIPE,
                stdout=PIPE,
                stderr=stderr,
            )
        self.pid = child.pid
        try:
            await self._serve(child)
            with suppress(TimeoutError):
                # A process that is killed closes its pipes before its exit code is known.
                async with asyncio.timeout(EXIT_SECONDS):
                    await child.wait()
            self._lose(_describe_exit(child, errors))
        finally:
            self._memory.forget(child.pid)
            await child.close(grace=0)

    def _command(self, folder: Path) -> list[str]:
        mode = ("--no-startup-window",) if self.headed else ("--headless", "about:blank")
        profile = f"--user-data-dir={folder / 'profile'}"
        program = (str(self._executable), *OPTIONS, profile, *mode)
        return ["/bin/sh", "-c", _LAUNCH, *program]

    async def _serve(self, child: Child) -> None:
        """Read what it sends until it closes its pipe."""
        assert child.stdout is not None, "requested as a pipe"
        assert child.stdin is not None, "requested as a pipe"
        connection = self._connection = Connection(child.stdout, child.stdin)
        connection.listen(None, self._on_event)
        async with asyncio.TaskGroup() as reader:
            reading = reader.create_task(self._work(connection, child.pid))
            await connection.read()
            reading.cancel()

    async def _work(self, connection: Connection, group: int) -> None:
        """Attach to all pages, then watch; all work for contexts is a task of this group."""
        async with asyncio.TaskGroup() as self._group:
            try:
                auto = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
                await connection.call("Target.setAutoAttach", auto, seconds=START_SECONDS)
                if self.headed:
                    await self._check_window(connection)
                self._ready.set()
                await self._watch(connection, group)
            except TimeoutError:
                self.end("the browser did not answer in time")
            except ProtocolError as error:
                self.end(f"the browser refused a call: {error}")
            except BrowserLostError:
                pass  # The reader has noticed too.

    async def _check_window(self, connection: Connection) -> None:
        """End a headless shell that was not known by its name, such as one behind a script."""
        product = (await connection.call("Browser.getVersion"))["product"]
        if product.startswith("Headless"):
            self.end(no_window(f"{self._executable} is {product}"))

    async def _watch(self, connection: Connection, group: int) -> None:
        while True:
            self._memory.check(group, await _processes(connection))
            await asyncio.sleep(WATCH_SECONDS)

    async def process_ids(self) -> dict[int, str]:
        """Return the kinds of its processes by their numbers."""
        return await _processes(self._require_connection())


async def _processes(connection: Connection) -> dict[int, str]:
    found = await connection.call("SystemInfo.getProcessInfo", seconds=HANG_SECONDS)
    return {one["id"]: one["type"] for one in found["processInfo"]}


def _describe_exit(child: Child, errors: Path) -> str:
    code = child.returncode
    if code is None:
        return f"the browser (process {child.pid}) closed its pipe"
    # A script that starts Chromium, such as Debian's, reports a signal as 128 and its number.
    number = -code if code < 0 else code - 128
    known = {one.value: one.name for one in signal.Signals}
    how = f"by {known[number]}" if number in known else f"with exit code {code}"
    tail = " ".join(errors.read_bytes()[-ERROR_BYTES:].decode(errors="replace").split())
    return f"the browser (process {child.pid}) ended {how}" + (f": {tail}" if tail else "")


@contextmanager
def _profile_folder() -> Iterator[Path]:
    """Make a folder for a browser's profile, and remove those of processes that were killed."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_PROFILE}-*"):
        if _owner_is_dead(left.name):
            shutil.rmtree(left, ignore_errors=True)
    owner = f"{os.getpid()}-{start_time(os.getpid())}"
    folder = Path(tempfile.mkdtemp(prefix=f"{_PROFILE}-{owner}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _owner_is_dead(name: str) -> bool:
    """Return whether the process that made a profile folder has ended.

    >>> _owner_is_dead("agentfly-browser-1-2-abc"), _owner_is_dead("agentfly-browser-x")
    (True, False)
    """
    pid, _, rest = name.removeprefix(f"{_PROFILE}-").partition("-")
    began = rest.partition("-")[0]
    return pid.isdigit() and began.isdigit() and start_time(int(pid)) != int(began)
