"""This process's JVMs, and which of them gets the next world."""

import atexit
import os
import threading
import time
from functools import cache, partial

from agentfly.environments.scienceworld.simulator.jvm import Jvm
from agentfly.runtime.background import call_later

WORLDS_PER_JVM = 8
"""Above this the loads of one JVM, which are one at a time, wait for each other too long."""
MAX_JVMS = 4
"""Beyond this many full ones, JVMs take more worlds each: memory is bounded, speed is not."""
IDLE_SECONDS = 120.0
"""A JVM without worlds is kept this long: training steps leave their environments for minutes."""


class JvmPool:
    """JVMs that are started when they are needed and ended when they are idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jvms: list[Jvm] = []

    @property
    def jvms(self) -> tuple[Jvm, ...]:
        """Those that are alive."""
        with self._lock:
            return tuple(self._living())

    def acquire(self) -> Jvm:
        """Return the JVM for one more world: the emptiest, or a new one."""
        with self._lock:
            living = self._living()
            emptiest = min(living, key=lambda jvm: jvm.worlds, default=None)
            full = emptiest is None or emptiest.worlds >= WORLDS_PER_JVM
            if emptiest is None or (full and len(living) < MAX_JVMS):
                emptiest = Jvm()
                self._jvms.append(emptiest)
            emptiest.worlds += 1
            return emptiest

    def release(self, jvm: Jvm) -> None:
        """Count one world less."""
        with self._lock:
            jvm.worlds -= 1
            if jvm.worlds == 0 and jvm.alive:
                jvm.idle_since = time.monotonic()
                call_later(IDLE_SECONDS, partial(self._end_idle, jvm, jvm.idle_since))

    def close(self) -> None:
        """End all of them, and wait for it."""
        with self._lock:
            ending, self._jvms = self._jvms, []
        for jvm in ending:
            jvm.end("the simulator was closed")
        for jvm in ending:
            jvm.wait()

    def _living(self) -> list[Jvm]:
        self._jvms = [jvm for jvm in self._jvms if jvm.alive]
        return self._jvms

    def _end_idle(self, jvm: Jvm, since: float) -> None:
        with self._lock:
            # Somebody may have come since, and left again later.
            if jvm.worlds == 0 and jvm.idle_since == since:
                jvm.end("the simulator's JVM was idle")


def jvm_pool() -> JvmPool:
    """Return this process's own pool."""
    return _jvm_pool(os.getpid())


@cache
def _jvm_pool(pid: int) -> JvmPool:
    """Make it; what a forked process inherits belongs to its parent."""
    made = JvmPool()
    atexit.register(lambda: made.close() if os.getpid() == pid else None)
    return made
