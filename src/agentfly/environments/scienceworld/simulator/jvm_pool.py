"""The JVMs of this process, and the choice of one for the next world.

The simulator keeps its simplifications per JVM: the last load sets those of all worlds in it, and
they act at every step (flower pots water themselves, doors open, electrical actions vanish). So the
worlds of one JVM all have the same ones. The rest of its shared state are counters of ids and a
cache of routes through the house, which is the same in all tasks.
"""

import atexit
import os
import threading
import time
from functools import cache, partial

from agentfly.environments.scienceworld.simulator.jvm import Jvm
from agentfly.runtime.background import call_later

WORLDS_PER_JVM = 8
"""Number of worlds from which a JVM is full: its loads are exclusive and wait for each other."""
MAX_JVMS = 4
"""Maximum number of JVMs, which bounds memory. When all are full, they take more worlds each. Only
the first JVM of a set of simplifications may exceed it, if no JVM is idle."""
IDLE_SECONDS = 120.0
"""Time that a JVM without worlds is kept: training steps use no environments for minutes."""


class JvmPool:
    """JVMs that are started when needed and ended when idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jvms: list[Jvm] = []

    @property
    def jvms(self) -> tuple[Jvm, ...]:
        """Living JVMs."""
        with self._lock:
            return tuple(self._living())

    def acquire(self, simplifications: frozenset[str] = frozenset()) -> Jvm:
        """Return the JVM for one more world: the one with the fewest worlds, or another one."""
        with self._lock:
            living = [jvm for jvm in self._living() if jvm.simplifications == simplifications]
            chosen = min(living, key=lambda jvm: jvm.worlds, default=None)
            if chosen is None or chosen.worlds >= WORLDS_PER_JVM:
                chosen = self._idle_plain() or self._another(chosen)
                chosen.simplifications = simplifications
            chosen.worlds += 1
            return chosen

    def _idle_plain(self) -> Jvm | None:
        """Return an idle JVM without simplifications: they can be set, but never be unset."""
        idle = (jvm for jvm in self._living() if jvm.worlds == 0 and not jvm.simplifications)
        return next(idle, None)

    def _another(self, full: Jvm | None) -> Jvm:
        """Start a JVM, unless there is a full one and no room for more."""
        if not self._has_room() and full is not None:
            return full
        made = Jvm()
        self._jvms.append(made)
        return made

    def _has_room(self) -> bool:
        """Return whether one more JVM may start; an idle one is ended for it if necessary."""
        living = self._living()
        if len(living) < MAX_JVMS:
            return True
        idle = [jvm for jvm in living if jvm.worlds == 0]
        if idle:
            min(idle, key=lambda jvm: jvm.idle_since).end("the simulator's JVM made room")
        return bool(idle)

    def release(self, jvm: Jvm) -> None:
        """Note that a world has left its JVM."""
        with self._lock:
            jvm.worlds -= 1
            if jvm.worlds == 0 and jvm.alive:
                jvm.idle_since = time.monotonic()
                call_later(IDLE_SECONDS, partial(self._end_idle, jvm, jvm.idle_since))

    def close(self) -> None:
        """End all JVMs, and wait for it."""
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
            # Another world may have come since, and left again later.
            if jvm.worlds == 0 and jvm.idle_since == since:
                jvm.end("the simulator's JVM was idle")


def jvm_pool() -> JvmPool:
    """Return the pool of this process."""
    return _jvm_pool(os.getpid())


@cache
def _jvm_pool(pid: int) -> JvmPool:
    """Make the pool of a process. A forked process makes its own; its parent keeps the JVMs."""
    made = JvmPool()
    atexit.register(lambda: made.close() if os.getpid() == pid else None)
    return made
