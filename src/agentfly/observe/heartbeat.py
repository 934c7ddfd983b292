"""A line every so often while nothing else is shown, so that a silent run is not taken for hung."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

FIRST_SECONDS = 10.0
SECONDS = 30.0


class Heartbeat:
    """Calls a function from a thread of its own, once 10 seconds and then every 30 were silent.

    with Heartbeat(show_progress) as heart:
        heart.shown()       # a line was shown: the 30 seconds begin again
    """

    def __init__(
        self, show: Callable[[], None], *, first: float = FIRST_SECONDS, seconds: float = SECONDS
    ) -> None:
        self._show = show
        self._first, self._seconds = first, seconds
        self._next = 0.0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def shown(self) -> None:
        """Begin to wait again, because something was shown."""
        self._next = time.monotonic() + self._seconds

    def start(self) -> None:
        """Start the thread."""
        self._ended.clear()
        self._next = time.monotonic() + self._first
        self._thread = threading.Thread(target=self._beat, name="agentfly-heartbeat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Closing twice does nothing."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _beat(self) -> None:
        while not self._ended.wait(max(0.0, self._next - time.monotonic())):
            if time.monotonic() >= self._next:
                self.shown()
                self._show()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
