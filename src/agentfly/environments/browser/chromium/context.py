"""One chain's part of a browser: its own cookies and storage, its tabs, and its requests."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from agentfly.environments.browser.address import MAX_SHOWN_URL, Access
from agentfly.environments.browser.chromium.connection import (
    BrowserLostError,
    Connection,
    Params,
    ProtocolError,
)
from agentfly.environments.browser.chromium.tab import OPEN_SECONDS, Tab, TabEvents
from agentfly.environments.browser.site import (
    MAX_BODY,
    PageRequest,
    PageResponse,
    Site,
)
from agentfly.errors import EnvError, boundary
from agentfly.runtime.threads import shared_threads

MAX_TABS = 4
"""Maximum number of tabs of a chain; further pop-ups are refused."""
MAX_NOTES = 8
"""Maximum number of notes with one observation."""
RESPOND_SECONDS = 30.0
"""Time limit of a site's answer."""

Spawn = Callable[[Coroutine[Any, Any, None]], object]
"""Starts work that ends with the browser at the latest."""


class BrowserContext:
    """A context of a browser, on the browser's event loop."""

    def __init__(self, connection: Connection, context: str, spawn: Spawn) -> None:
        self.id = context
        self.tabs: list[Tab] = []
        """Open tabs in the order of their numbers."""
        self.site: Site | None = None
        """Answers requests; without one, all are refused."""
        self.failure: EnvError | None = None
        """The site's own failure, which ends the chain."""
        self._connection = connection
        self._spawn = spawn
        self._notes: list[str] = []
        self._tab_ready = asyncio.Event()
        self._refusal: str | None = None
        """Why the last tab could not be prepared."""

    async def open(self) -> None:
        """Refuse downloads and permissions, and open the first tab."""
        here, call = {"browserContextId": self.id}, self._connection.call
        await call("Browser.setDownloadBehavior", {"behavior": "deny", **here})
        # An empty list rejects every permission, without a prompt.
        await call("Browser.grantPermissions", {"permissions": [], **here})
        await self.new_tab()

    async def new_tab(self) -> None:
        """Open a blank tab, and wait until it is ready."""
        self._tab_ready.clear()
        self._refusal = None
        params = {"url": "about:blank", "browserContextId": self.id}
        try:
            async with asyncio.timeout(OPEN_SECONDS):
                await self._connection.send("Target.createTarget", params)
                await self._tab_ready.wait()
        except TimeoutError:
            raise ProtocolError(f"its tab was not ready within {OPEN_SECONDS:g} s") from None
        if not self.tabs:
            raise ProtocolError(f"its tab could not be prepared: {self._refusal}")

    async def attach(self, target: str, session: str) -> None:
        """Take over a tab that was opened, by us or by a page."""
        if len(self.tabs) >= MAX_TABS:
            self.note("A pop-up was refused: too many tabs are open.")
            # A tab that is still paused would block the page that opened it.
            self._connection.post("Runtime.runIfWaitingForDebugger", session=session)
            self._connection.post("Target.closeTarget", {"targetId": target}, session=None)
            return
        tab = Tab(
            self._connection,
            target,
            session,
            TabEvents(request=self._on_request, note=self.note),
        )
        self.tabs.append(tab)
        if len(self.tabs) > 1:
            self.note(f"A new tab opened: {len(self.tabs)}.")
        try:
            await tab.open()
        except TimeoutError:  # `new_tab` has timed out already.
            self.drop(tab)
        except (ProtocolError, BrowserLostError) as error:
            self._refusal = str(error)
            self.drop(tab)
        self._tab_ready.set()

    def detach(self, session: str) -> None:
        """Note that a tab has gone."""
        for tab in [one for one in self.tabs if one.session == session]:
            tab.close()
            self.tabs.remove(tab)

    def drop(self, tab: Tab) -> None:
        """Close a tab without waiting for its page."""
        self._connection.post("Target.closeTarget", {"targetId": tab.target}, session=None)
        tab.close()
        if tab in self.tabs:
            self.tabs.remove(tab)

    def note(self, text: str) -> None:
        """Keep something that the model is shown with the next observation."""
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text)

    def take_notes(self) -> list[str]:
        """Return what was noted since the last time."""
        notes, self._notes = self._notes, []
        return notes

    def abandon(self) -> None:
        """Close it without waiting."""
        self._forget()
        params = {"browserContextId": self.id}
        self._connection.post("Target.disposeBrowserContext", params, session=None)

    def _forget(self) -> None:
        for tab in self.tabs:
            tab.close()
        self.tabs = []
        self.site = None

    async def close(self) -> None:
        """Close all tabs and forget cookies and storage."""
        self._forget()
        with suppress(ProtocolError, BrowserLostError):  # It has gone already.
            await self._connection.call(
                "Target.disposeBrowserContext", {"browserContextId": self.id}
            )

    # ------------------------------------------------------------------ requests

    def _on_request(self, tab: Tab, params: Params) -> None:
        access = self._access(params)
        if access is Access.SERVE:
            tab.pending += 1
            self._spawn(self._answer(tab, params))
        elif access is Access.FETCH:
            self._post(tab, "Fetch.continueRequest", params, {})
        else:
            document = params.get("resourceType") == "Document"
            if document:
                self.note(
                    f"This address is not allowed: {params['request']['url'][:MAX_SHOWN_URL]}"
                )
            # An aborted navigation leaves the page as it is.
            reason = "Aborted" if document else "BlockedByClient"
            self._post(tab, "Fetch.failRequest", params, {"errorReason": reason})

    def _access(self, params: Params) -> Access:
        if self.site is None:
            return Access.REFUSE
        return self.site.rules.access(params["request"]["url"])

    async def _answer(self, tab: Tab, params: Params) -> None:
        """Answer a request by the site."""
        try:
            response = await self._respond(params["request"])
            self._post(tab, "Fetch.fulfillRequest", params, _fulfilled(response))
        except EnvError as error:
            self.failure = self.failure or error
            self._post(tab, "Fetch.failRequest", params, {"errorReason": "Failed"})
        finally:
            tab.request_done()

    async def _respond(self, request: Params) -> PageResponse:
        site = self.site
        if site is None:
            return PageResponse.not_found()
        wanted = PageRequest(
            url=request["url"], method=request["method"], body=request.get("postData", "")
        )
        doing = f"answering {wanted.method} {wanted.url[:MAX_SHOWN_URL]}"
        try:
            with boundary(EnvError, doing):
                async with asyncio.timeout(RESPOND_SECONDS):
                    call = partial(site.respond, wanted)
                    response = await shared_threads().run(call, name=doing)
        except TimeoutError:
            raise EnvError(f"{doing} took more than {RESPOND_SECONDS:g} s") from None
        if len(response.body) > MAX_BODY:
            raise EnvError(f"{doing} gave {len(response.body)} bytes, more than {MAX_BODY}")
        return response

    def _post(self, tab: Tab, method: str, params: Params, more: Params) -> None:
        sent = {"requestId": params["requestId"], **more}
        self._connection.post(method, sent, session=tab.session)


def _fulfilled(response: PageResponse) -> Params:
    headers = {"Content-Type": response.media_type, "Cache-Control": "no-store", **response.headers}
    return {
        "responseCode": int(response.status),
        "responseHeaders": [{"name": name, "value": value} for name, value in headers.items()],
        "body": base64.b64encode(response.body).decode(),
    }
