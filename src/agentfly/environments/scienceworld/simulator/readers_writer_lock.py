"""A readers-writer lock that can be broken.

Loading a task changes state that all worlds of a JVM share, so it needs the lock exclusively; steps
share it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentfly.errors import EnvError


class ReadersWriterLock:
    """A readers-writer lock. Once broken, it raises for all current and later waiters.

    A waiting exclusive holder goes before later shared ones, or it would wait without end.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._exclusive = False
        self._waiting_exclusive = 0
        self._broken: str | None = None

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold the lock together with others."""
        with self._changed:
            self._wait_until(lambda: not self._exclusive and not self._waiting_exclusive)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock while no one else does."""
        with self._changed:
            self._waiting_exclusive += 1
            try:
                self._wait_until(lambda: not self._exclusive and not self._sharing)
                self._exclusive = True
            finally:
                self._waiting_exclusive -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()

    def mark_broken(self, reason: str) -> bool:
        """Raise an EnvError with this reason for all current and later waiters.

        Only the first reason counts; return whether it is this one.
        """
        with self._changed:
            if self._broken is not None:
                return False
            self._broken = reason
            self._changed.notify_all()
            return True

    @property
    def broken(self) -> str | None:
        """Reason why it is broken; None if it is not."""
        return self._broken

    def _wait_until(self, free: Callable[[], bool]) -> None:
        # No time limit here: each holder has one, and breaks the lock when it exceeds it.
        self._changed.wait_for(lambda: self._broken is not None or free())
        if self._broken is not None:
            raise EnvError(self._broken)
