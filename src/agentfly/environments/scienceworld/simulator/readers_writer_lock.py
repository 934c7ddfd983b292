"""Many at once, or one alone.

Loading a task changes what all worlds of a JVM share, so it must be alone there; steps disturb
each other as little as readers do.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentfly.errors import EnvError


class ReadersWriterLock:
    """A readers-writer lock that can be broken: then it fails whoever waits or comes.

    Who wants to be alone goes before those who come later, or it would wait for ever.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sharing = 0
        self._exclusive = False
        self._waiting_exclusive = 0
        self._broken: str | None = None

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Hold it together with others."""
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
        """Hold it while nobody else does."""
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
        """Fail all who wait and all who come, with an EnvError that says this.

        Only the first reason counts; returns whether it is this one.
        """
        with self._changed:
            if self._broken is not None:
                return False
            self._broken = reason
            self._changed.notify_all()
            return True

    @property
    def broken(self) -> str | None:
        """Why it can't be held any more."""
        return self._broken

    def _wait_until(self, free: Callable[[], bool]) -> None:
        # No time limit of its own: each holder has one, and who exceeds it breaks the lock.
        self._changed.wait_for(lambda: self._broken is not None or free())
        if self._broken is not None:
            raise EnvError(self._broken)
