"""One tab: its documents, scripts in them, real input, and waiting until it settles."""

import asyncio
import base64
import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from agentfly.environments.browser.address import MAX_SHOWN_URL
from agentfly.environments.browser.chromium.connection import (
    Connection,
    Params,
    ProtocolError,
    ignore_failure,
)
from agentfly.environments.browser.chromium.page_clock import PageClock
from agentfly.environments.browser.site import ScriptError

WORLD = "agentfly"
"""Name of the world in which our own script runs, apart from the page's."""
QUIET_MS = 12
"""A page that has not changed for this long has settled. Frames are 16 ms, jQuery's steps 13."""
MAX_SETTLE_MS = 1500
"""Time after which a page that never stops changing counts as settled."""
PICTURE_MS = 1000
"""Time that pictures without a size may take to load; then they are left out for good."""
OPEN_SECONDS = 60.0
"""Time limit of making a tab. It takes 0.2 s, but much more when many are made under load."""
LOAD_SECONDS = 10.0
"""Time that a page may take to load; then what is there is shown."""
MAX_LATE_DOCUMENTS = 2
"""Number of documents that may go away after that time: a busy machine may load the page late."""
SCRIPT_SECONDS = 5.0
"""Time that a page may keep its thread busy, by the thread's processor; then its script is
ended."""
STUCK_SECONDS = 3.0
"""Time for a page to answer after its script was ended; then it is closed."""
MAX_DIALOGS = 10
"""Maximum number of dialogs after one action; then the page's script is ended."""
MAX_SHOWN_DIALOGS = 3
"""Maximum number of dialogs after one action that are shown to the model."""
WIDTH, HEIGHT = 1024, 768
"""Size of the window in CSS pixels."""

_log = logging.getLogger(__name__)

_NOT_ALLOWED = re.compile(r"Not allowed to (?:load local resource|navigate top frame to .*?): (.*)")
"""Chromium's report of an address such as `file:///etc/passwd` or `chrome://settings`."""

PAGE_SCRIPT = "window.print = () => {}; delete Navigator.prototype.serviceWorker;"
"""Script that runs before those of the page, in their world. A print dialog would block the page,
and service workers never start here: a page that asks learns that there are none."""

_SCRIPT_FILES = ("page_elements.js", "page_items.js", "page_actions.js")
"""Parts of one function, in this order: each one uses names of those before it."""
_REQUIRED: tuple[tuple[str, Params], ...] = (
    ("Page.enable", {}),
    ("Runtime.enable", {}),
    ("Fetch.enable", {"patterns": [{"urlPattern": "*"}]}),
    ("Page.addScriptToEvaluateOnNewDocument", {"source": PAGE_SCRIPT}),
)
"""Calls without which a tab can't be used or would not be safe."""
_OPTIONAL: tuple[tuple[str, Params], ...] = (
    ("Performance.enable", {}),
    ("Log.enable", {}),
    ("Page.setInterceptFileChooserDialog", {"enabled": True}),
    ("Page.setLifecycleEventsEnabled", {"enabled": True}),
    ("Emulation.setFocusEmulationEnabled", {"enabled": True}),
    (
        "Emulation.setDeviceMetricsOverride",
        {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False},
    ),
)
"""Calls that an older or newer Chromium may lack."""


class PageStuckError(Exception):
    """Page whose script never ends, or that crashed; its text says which."""


class DocumentGoneError(Exception):
    """Document that was replaced by another one during a call."""


@cache
def page_script() -> str:
    """Return the script that lists and finds the items of a page."""
    folder = Path(__file__).parent
    parts = [(folder / name).read_text(encoding="utf-8") for name in _SCRIPT_FILES]
    return "\n".join(["(() => {", *parts, "})();"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TabEvents:
    """Callbacks for a tab's reports to its context."""

    request: Callable[["Tab", Params], None]
    """A request that waits for an answer."""
    note: Callable[[str], None]
    """Something that the model should know."""


class Tab:
    """A page target, on the event loop of its connection."""

    def __init__(
        self, connection: Connection, target: str, session: str, events: TabEvents
    ) -> None:
        self.target = target
        self.session = session
        self.crashed = False
        self.closed = False
        self.pending = 0
        """Number of requests that are being answered."""
        self.patience = 1.0
        """Factor of the time limits of scripts and loading."""
        self.dialogs = 0
        """Number of dialogs since the last action."""
        self._connection = connection
        self._events = events
        self._worlds: dict[str, str] = {}
        """Unique ids of the main frame's contexts: of the page's world, and of ours."""
        self._changed = asyncio.Event()
        """Set whenever the state below changes."""
        self._loading = set[str]()
        """Ids of the frames that are loading."""
        self._leaving = set[str]()
        """Ids of the frames whose next document has not come yet."""
        self._awaited = False
        """Whether a navigation of the main frame was asked for that has not begun."""
        self._any_frame = False
        """Whether the navigation that was asked for may be one of another frame."""
        connection.listen(session, self._on_event)

    async def open(self) -> None:
        """Prepare a new tab: nothing of its page runs before this.

        Raises:
            ProtocolError: The browser refused what a tab can't do without.
        """
        listing = {"source": page_script(), "worldName": WORLD, "runImmediately": True}
        required = [self._ask(method, params) for method, params in _REQUIRED]
        required.append(self._ask("Page.addScriptToEvaluateOnNewDocument", listing))
        optional = [self._ask(method, params) for method, params in _OPTIONAL]
        required.append(self._ask("Runtime.runIfWaitingForDebugger"))
        async with asyncio.timeout(OPEN_SECONDS):
            for call in required:
                await call
            for call in optional:
                with suppress(ProtocolError):
                    await call

    # ------------------------------------------------------------------ events

    def _on_event(self, method: str, params: Params) -> None:
        handler = _HANDLERS.get(method)
        if handler is not None:
            handler(self, params)
            self._changed.set()

    def _on_world(self, params: Params) -> None:
        context = params["context"]
        about = context.get("auxData", {})
        if about.get("frameId") == self.target:
            if about.get("isDefault"):
                self._worlds["page"] = context["uniqueId"]
            elif context.get("name") == WORLD:
                self._worlds[WORLD] = context["uniqueId"]

    def _on_world_gone(self, params: Params) -> None:
        gone = params.get("executionContextUniqueId")
        self._worlds = {name: one for name, one in self._worlds.items() if one != gone}

    def _on_worlds_cleared(self, _: Params) -> None:
        self._worlds.clear()

    def _on_loading(self, params: Params) -> None:
        frame = params["frameId"]
        self._loading.add(frame)
        self._leaving.add(frame)
        self._note_begun(frame)

    def _on_loaded(self, params: Params) -> None:
        self._loading.discard(params["frameId"])
        self._leaving.discard(params["frameId"])

    def _on_navigated(self, params: Params) -> None:
        frame = params["frame"]["id"]
        if frame == self.target:
            # Not every frame of the document that was left is reported as detached.
            self._loading &= {self.target}
            self._leaving.clear()
        self._leaving.discard(frame)

    def _on_navigated_within(self, params: Params) -> None:
        """Note that only the part after # has changed, or the page's own entry of the history."""
        self._note_begun(params["frameId"])

    def _note_begun(self, frame: str) -> None:
        if self._any_frame or frame == self.target:
            self._awaited = False

    def _on_lifecycle(self, params: Params) -> None:
        """Note that a frame without pending requests has loaded.

        Chromium reports it as loading while a script has not closed a frame in it that it writes.
        """
        frame = params["frameId"]
        if params["name"] == "networkIdle" and frame not in self._leaving:
            self._loading.discard(frame)

    @property
    def _busy(self) -> bool:
        return bool(self._awaited or self._loading or self.pending)

    def _on_crash(self, _: Params) -> None:
        self.crashed = True
        self._connection.forget(self.session)

    def _on_dialog(self, params: Params) -> None:
        """Answer a dialog at once: a page waits for it with everything else."""
        self.dialogs += 1
        kind, text = params.get("type", "dialog"), str(params.get("message", ""))[:200]
        if kind != "beforeunload" and self.dialogs <= MAX_SHOWN_DIALOGS:
            self._events.note(f"The page showed a dialog ({kind}), which was accepted: {text!r}.")
        if self.dialogs == MAX_DIALOGS:
            self._events.note(f"After {MAX_DIALOGS} dialogs the page's script was ended.")
        if self.dialogs >= MAX_DIALOGS:
            # Before the answer, with which the script would go on.
            self._connection.post("Runtime.terminateExecution", session=self.session)
        answer = {"accept": True, "promptText": params.get("defaultPrompt", "")}
        self._connection.post("Page.handleJavaScriptDialog", answer, session=self.session)

    def _on_file_chooser(self, _: Params) -> None:
        self._events.note("Files can't be uploaded.")

    def _on_download(self, params: Params) -> None:
        self._events.note(f"A download was refused: {str(params.get('url', ''))[:MAX_SHOWN_URL]}")

    def _on_log_entry(self, params: Params) -> None:
        """Note an address that the browser itself refuses to a page, before any request for it."""
        if found := _NOT_ALLOWED.match(params["entry"]["text"]):
            # The rest of a `data:` address is text that the page controls.
            address = found[1].partition(",")[0] if found[1].startswith("data:") else found[1]
            self._events.note(f"This address is not allowed: {address[:MAX_SHOWN_URL]}")

    def _on_request(self, params: Params) -> None:
        self._events.request(self, params)

    def close(self) -> None:
        """Note that the target has gone."""
        self.closed = True
        self._connection.forget(self.session)
        self._changed.set()

    # ------------------------------------------------------------------ scripts

    async def run(self, function: str, *arguments: object) -> Any:
        """Call a function of our script in the document that is there now.

        Raises:
            DocumentGoneError: The document went away meanwhile.
            PageStuckError: The page does not answer.
        """
        written = ", ".join(json.dumps(one) for one in arguments)
        return await self._evaluate(f"agentfly.{function}({written})", WORLD)

    async def evaluate(self, expression: str) -> Any:
        """Evaluate an expression in the page's own world; NaN and the like come as their text."""
        return await self._evaluate(expression, "page")

    async def syntax_error(self, expression: str) -> str | None:
        """Return why an expression can't be compiled, None if it can; it is not evaluated."""
        params = {"expression": expression, "sourceURL": "", "persistScript": False}
        answer = await self._call("Runtime.compileScript", params)
        details = answer.get("exceptionDetails")
        return None if details is None else str(_script_error(details, "page"))

    async def _evaluate(self, expression: str, world: str) -> Any:
        context = await self._world(world)
        params = {
            "expression": expression,
            "uniqueContextId": context,
            "awaitPromise": True,
            "returnByValue": True,
        }
        try:
            answer = await self._call("Runtime.evaluate", params)
        except ProtocolError as error:
            self._require_alive()
            raise DocumentGoneError(str(error)) from None
        if "exceptionDetails" in answer:
            raise _script_error(answer["exceptionDetails"], world)
        result = answer["result"]
        return result.get("value", result.get("unserializableValue"))

    async def _call(self, method: str, params: Params) -> Params:
        """Send a call; if it is not answered in time, end the page's script and wait once more."""
        answer = self._send(method, params)
        clock, answered = PageClock(self._ask), partial(asyncio.shield, answer)
        if await clock.within(SCRIPT_SECONDS * self.patience, answered):
            return answer.result()
        self._connection.post("Runtime.terminateExecution", session=self.session)
        if not await clock.within(STUCK_SECONDS, answered):
            answer.cancel()
            raise PageStuckError("its script never ends, so it was closed")
        self._events.note("The page's script took too long and was ended.")
        return answer.result()

    async def _world(self, world: str) -> str:
        """Return the id of a world, after waiting for the document that is being made."""

        async def made() -> None:
            while world not in self._worlds:
                self._require_alive()
                self._changed.clear()
                await self._changed.wait()

        if not await PageClock(self._ask).within(LOAD_SECONDS * self.patience, made):
            raise PageStuckError("it did not load, so it was closed")
        return self._worlds[world]

    def _require_alive(self) -> None:
        if self.crashed:
            raise PageStuckError(
                "it crashed or took too much memory or processor time, so it was closed"
            )
        if self.closed:
            raise PageStuckError("it was closed")

    # ------------------------------------------------------------------ loading and settling

    async def navigate(self, url: str) -> str | None:
        """Open an address; return what kept it from opening."""
        self._awaited, self._any_frame = True, False
        try:
            answer = await self._call("Page.navigate", {"url": url})
        except ProtocolError as error:
            self._awaited = False
            self._require_alive()
            return str(error)
        if problem := answer.get("errorText"):
            self._awaited = False
            return str(problem)
        if "loaderId" not in answer:
            self._awaited = False  # Only the part after # has changed.
        return None

    async def settled(self) -> None:
        """Wait, in bounds, until the page has loaded and stopped changing."""
        await self._settle("0")

    async def items(self, hidden: tuple[str, ...]) -> Mapping[str, Any]:
        """Wait until the page has settled; return what is on it."""
        listing = f"agentfly.list({json.dumps(hidden)}, {PICTURE_MS})"
        listed: Mapping[str, Any] = await self._settle(listing)
        return listed

    async def _settle(self, then: str) -> Any:
        """Wait until the page has settled, and evaluate an expression in the same call."""
        deadline = asyncio.get_running_loop().time() + LOAD_SECONDS * self.patience
        script = f"agentfly.settle({QUIET_MS}, {MAX_SETTLE_MS}).then(() => {then})"
        gone_late = 0
        while True:
            await self._loaded(deadline)
            late = asyncio.get_running_loop().time() >= deadline
            try:
                found = await self._evaluate(script, WORLD)
            except DocumentGoneError:
                gone_late += late
                if gone_late > MAX_LATE_DOCUMENTS:
                    raise PageStuckError("it never stopped loading, so it was closed") from None
                continue
            if late or not self._busy:
                return found

    async def _loaded(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while self._busy and not (self.crashed or self.closed):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            self._ask("Page.stopLoading")
            self._awaited = False
            self._loading.clear()
            self._leaving.clear()
        self._require_alive()

    def request_done(self) -> None:
        """Note that a request was answered."""
        self.pending -= 1
        self._changed.set()

    # ------------------------------------------------------------------ other calls

    async def input(self, *calls: tuple[str, Params]) -> None:
        """Send input events at once, in order; a navigation may swallow their answers."""
        *first, last = calls
        for method, params in first:
            self._send(method, params).add_done_callback(ignore_failure)
        try:
            await self._call(*last)
        except ProtocolError:
            self._require_alive()

    async def screenshot(self) -> bytes:
        """Return the visible part of the page as a PNG."""
        try:
            answer = await self._call("Page.captureScreenshot", {"format": "png"})
        except ProtocolError:
            self._require_alive()
            raise
        return base64.b64decode(answer["data"])

    async def back(self) -> bool:
        """Go back in the tab's history; return whether there was anywhere to go."""
        history = await self._call("Page.getNavigationHistory", {})
        place = history["currentIndex"]
        before = history["entries"][:place]
        # The first entry of a tab that was opened by us is a blank page.
        if not before or (place == 1 and before[0]["url"] == "about:blank"):
            return False
        entry, here = before[-1], history["entries"][place]
        # An entry of a frame has the address of the whole page.
        self._awaited, self._any_frame = True, entry["url"] == here["url"]
        await self._call("Page.navigateToHistoryEntry", {"entryId": entry["id"]})
        return True

    def _send(self, method: str, params: Params | None = None) -> asyncio.Future[Params]:
        return self._connection.send(method, params, session=self.session)

    def _ask(self, method: str, params: Params | None = None) -> asyncio.Future[Params]:
        """Send a call whose failure needs no attention."""
        asked = self._send(method, params)
        asked.add_done_callback(ignore_failure)
        return asked


def _script_error(details: Params, world: str) -> ScriptError:
    thrown = str(details.get("exception", {}).get("description") or details.get("text"))[:500]
    if world == WORLD:
        # What it says is about our code: for the log, and not for a model.
        _log.error("the script that lists a page's elements failed: %s", thrown)
        return ScriptError("its elements can't be listed, so it was closed")
    return ScriptError(thrown)


_HANDLERS: Mapping[str, Callable[[Tab, Params], None]] = {
    "Runtime.executionContextCreated": Tab._on_world,
    "Runtime.executionContextDestroyed": Tab._on_world_gone,
    "Runtime.executionContextsCleared": Tab._on_worlds_cleared,
    "Page.frameStartedLoading": Tab._on_loading,
    "Page.frameStoppedLoading": Tab._on_loaded,
    "Page.frameDetached": Tab._on_loaded,
    "Page.frameNavigated": Tab._on_navigated,
    "Page.navigatedWithinDocument": Tab._on_navigated_within,
    "Page.lifecycleEvent": Tab._on_lifecycle,
    "Page.javascriptDialogOpening": Tab._on_dialog,
    "Page.fileChooserOpened": Tab._on_file_chooser,
    "Page.downloadWillBegin": Tab._on_download,
    "Log.entryAdded": Tab._on_log_entry,
    "Fetch.requestPaused": Tab._on_request,
    "Inspector.targetCrashed": Tab._on_crash,
}
