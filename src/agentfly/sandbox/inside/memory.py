"""Watching what all processes of a sandbox take together.

RLIMIT_AS bounds each process; only counting bounds their sum. The server looks several times a
second, which is enough: even a bomb takes longer than that to fill the difference.
"""

import os
from collections import Counter
from collections.abc import Collection

TICK_SECONDS = 0.1
PER_TICK = 50
"""Sandboxes looked at in one tick, in rotation: the watch must stay cheap with hundreds live."""


class MemoryWatch:
    """Finds sandboxes whose processes together hold more than their limit."""

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self._inherited = self._kilobytes("self")
        """Every process begins with this much, shared with the server until it writes to it."""
        self._rotation: list[int] = []

    def over_limit(self, limits_mb: dict[int, int]) -> list[int]:
        """Return which of these sandboxes, by the pid of their first process, hold too much.

        Counted are anonymous and shared pages. Those that have more than one process are looked
        at in every tick.
        """
        held = self._below(limits_mb)
        for pid in {*held, *self._next(limits_mb)}:
            held[pid] += self._own(str(pid))
        return [pid for pid, kilobytes in held.items() if kilobytes > limits_mb[pid] * 1024]

    def _next(self, firsts: Collection[int]) -> list[int]:
        """Return those whose turn it is, and put them at the end of the queue."""
        waiting = [pid for pid in self._rotation if pid in firsts]
        waiting += sorted(set(firsts) - set(waiting))
        self._rotation = waiting[PER_TICK:] + waiting[:PER_TICK]
        return waiting[:PER_TICK]

    def _below(self, firsts: Collection[int]) -> Counter[int]:
        """Sum up, for each sandbox, what the processes below its first one hold."""
        names = os.listdir(self._proc)  # noqa: PTH208 - by descriptor
        strangers = {n for n in names if n.isdigit() and int(n) not in firsts} - {"1"}
        held: Counter[int] = Counter()
        if strangers:
            owners = {self._namespace(str(pid)): pid for pid in firsts}
            for name in strangers:
                if (owner := owners.get(self._namespace(name))) is not None:
                    held[owner] += self._own(name)
        return held

    def _own(self, name: str) -> int:
        return max(0, self._kilobytes(name) - self._inherited)

    def _kilobytes(self, name: str) -> int:
        try:
            descriptor = os.open(f"{name}/status", os.O_RDONLY, dir_fd=self._proc)
            with os.fdopen(descriptor, "rb") as file:
                lines = file.read().splitlines()
        except OSError:
            return 0  # It has ended, perhaps between the two.
        counted = (line.split()[1] for line in lines if line.startswith((b"RssAnon", b"RssShmem")))
        return sum(map(int, counted))

    def _namespace(self, name: str) -> str:
        try:
            return os.readlink(f"{name}/ns/pid", dir_fd=self._proc)
        except OSError:
            return ""
