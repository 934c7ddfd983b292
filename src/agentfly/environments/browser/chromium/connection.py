"""A client of the Chrome DevTools Protocol over two pipes.

A message is JSON that ends with a zero byte. A call has an id and is answered by a message with the
same id; every other message is an event of a session (a tab) or of the browser itself:

    -> {"id": 7, "method": "Runtime.evaluate", "params": {...}, "sessionId": "A1"}
    <- {"id": 7, "result": {...}, "sessionId": "A1"}
    <- {"method": "Page.frameStoppedLoading", "params": {...}, "sessionId": "A1"}

Written by hand: pipes can't be reached by anyone else, every call has a deadline of its own, and
there is no second process between Chromium and its owner.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

from agentfly.errors import EnvError

CALL_SECONDS = 60.0
"""Time limit of a call that the browser process answers by itself."""
MAX_MESSAGE = 1 << 26
"""Maximum bytes of a message; a longer one, which only a hostile page can cause, is dropped."""
CHUNK = 1 << 16

Params = Mapping[str, Any]
Handler = Callable[[str, Params], None]
"""Takes the name and the parameters of an event."""


class BrowserLostError(EnvError):
    """End of the browser process during a chain: the chain can't go on, and may be retried."""


class ProtocolError(Exception):
    """Call that the browser refused, such as one in a page that has just gone."""


class Connection:
    """Calls and events of one browser, on one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._ids = count(1)
        self._waiting: dict[int, tuple[str | None, asyncio.Future[Params]]] = {}
        self._handlers: dict[str | None, Handler] = {}
        self._lost: str | None = None

    def listen(self, session: str | None, handler: Handler) -> None:
        """Send the events of a session to a handler; None means the browser's own."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Ignore a session that has ended; its calls fail."""
        self._handlers.pop(session, None)
        for number, (of, future) in list(self._waiting.items()):
            if of == session:
                del self._waiting[number]
                _fail(future, ProtocolError("the page has gone"))

    def send(
        self, method: str, params: Params | None = None, *, session: str | None = None
    ) -> asyncio.Future[Params]:
        """Send a call at once; return the future of its answer."""
        future: asyncio.Future[Params] = asyncio.get_running_loop().create_future()
        if self._lost is not None:
            future.set_exception(BrowserLostError(self._lost))
            return future
        number = next(self._ids)
        message: dict[str, Any] = {"id": number, "method": method, "params": params or {}}
        if session is not None:
            message["sessionId"] = session
        self._waiting[number] = (session, future)
        # A caller that gives up leaves no entry.
        future.add_done_callback(lambda _: self._waiting.pop(number, None))
        self._writer.write(json.dumps(message).encode("utf-8", "surrogatepass") + b"\0")
        return future

    def post(self, method: str, params: Params | None = None, *, session: str | None) -> None:
        """Send a call whose answer does not matter."""
        self.send(method, params, session=session).add_done_callback(ignore_failure)

    async def call(
        self,
        method: str,
        params: Params | None = None,
        *,
        session: str | None = None,
        seconds: float = CALL_SECONDS,
    ) -> Params:
        """Send a call and wait for its answer.

        Raises:
            TimeoutError: There was no answer in time.
            ProtocolError: The browser refused.
            BrowserLostError: The browser has ended.
        """
        async with asyncio.timeout(seconds):
            return await self.send(method, params, session=session)

    async def read(self) -> None:
        """Read messages until the browser closes its pipe."""
        buffer, skipping = bytearray(), False
        while chunk := await self._reader.read(CHUNK):
            *ended, rest = chunk.split(b"\0")
            for part in ended:
                if not skipping:
                    self._receive(bytes(buffer + part))
                skipping = False
                buffer.clear()
            buffer += rest
            if len(buffer) > MAX_MESSAGE:
                skipping = True
                buffer.clear()

    def lose(self, reason: str) -> None:
        """Fail all calls, those to come included."""
        self._lost = self._lost or reason
        waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            _fail(future, BrowserLostError(self._lost))

    def _receive(self, data: bytes) -> None:
        message = json.loads(data.decode("utf-8", "surrogatepass"))
        if "id" in message:
            self._answer(message)
        elif handler := self._handlers.get(message.get("sessionId")):
            handler(message["method"], message.get("params", {}))

    def _answer(self, message: Mapping[str, Any]) -> None:
        _, future = self._waiting.pop(message["id"], (None, None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(ProtocolError(message["error"].get("message", "refused")))
        else:
            future.set_result(message.get("result", {}))


def _fail(future: asyncio.Future[Params], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.add_done_callback(ignore_failure)


def ignore_failure(future: asyncio.Future[Params]) -> None:
    """Mark the exception of a call as seen, so that the event loop does not report it."""
    if not future.cancelled():
        future.exception()
