"""Watch the memory that all processes of a sandbox take together.

RLIMIT_AS bounds each process; only counting bounds their sum. The server looks several times a
second, which is enough: even a bomb takes longer than that to fill the difference. What the watch
could not see, such as shared memory that no process has mapped, can't be had: see `denied_calls`.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable

TICK_SECONDS = 0.1
PER_TICK = 50
"""Sandboxes looked at in one tick, in rotation: the watch must stay cheap with hundreds live."""
_WHOLE = (b"RssAnon:", b"RssShmem:", b"VmSwap:")
"""Lines of /proc/PID/status: anonymous pages, shared ones, those swapped out."""
_PAGE_TABLES = (b"VmPTE:",)
_SHARES = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
"""Lines of /proc/PID/smaps_rollup: the same, a page that n processes hold counted as 1/n."""
_FEW_FILES = 8
"""A process with no more open files than this holds little in their buffers."""
_PIPE_KB = 64
_USUAL_SOCKET_KB = 208


class MemoryWatch:
    """Finds sandboxes whose processes together hold more than their limit."""

    def __init__(self, proc: int) -> None:
        self._proc = proc
        self.inherited = self._kilobytes("self")
        """Kilobytes that every sandbox shares with the server until it writes to them."""
        self._socket_kb = self._most_in_a_socket()
        self._rotation: list[int] = []

    def over_limit(self, limits_mb: dict[int, int]) -> list[int]:
        """Return which of these sandboxes, by the pid of their first process, hold too much.

        Those that have more than one process are looked at in every tick.
        """
        below = self._below(limits_mb)
        looked_at = {*below, *self._next(limits_mb)}
        return [
            pid
            for pid in looked_at
            if self._hold_more([str(pid), *below.get(pid, ())], limits_mb[pid] * 1024)
        ]

    def _next(self, firsts: Collection[int]) -> list[int]:
        """Return those whose turn it is, and put them at the end of the queue."""
        waiting = [pid for pid in self._rotation if pid in firsts]
        waiting += sorted(set(firsts) - set(waiting))
        self._rotation = waiting[PER_TICK:] + waiting[:PER_TICK]
        return waiting[:PER_TICK]

    def _below(self, firsts: Collection[int]) -> dict[int, list[str]]:
        """Find, for each sandbox that has any, the processes below its first one."""
        try:
            names = os.listdir(self._proc)  # noqa: PTH208 - by descriptor
        except OSError:
            names = []  # The machine has no descriptor left; the next tick looks again.
        strangers = {n for n in names if n.isdigit() and int(n) not in firsts} - {"1"}
        found: dict[int, list[str]] = defaultdict(list)
        if strangers:
            owners = {self._namespace(str(pid)): pid for pid in firsts}
            for name in strangers:
                if (owner := owners.get(self._namespace(name))) is not None:
                    found[owner].append(name)
        return found

    def _hold_more(self, names: list[str], limit: int) -> bool:
        """Return whether processes hold more than a limit, beyond what is shared with the server.

        Counting what they share once for each is quick, and mostly enough for a no.
        """
        room = limit + self.inherited - self._in_buffers(names)
        return sum(map(self._kilobytes, names)) > room and sum(map(self._shares, names)) > room

    def _kilobytes(self, name: str) -> int:
        return _sum(self._read(f"{name}/status"), _WHOLE + _PAGE_TABLES)

    def _shares(self, name: str) -> int:
        """Count a process's part of the pages that it holds; all of them on an old kernel."""
        shares = self._read(f"{name}/smaps_rollup")
        if _SHARES[0] not in shares:
            return self._kilobytes(name)
        return _sum(shares, _SHARES) + _sum(self._read(f"{name}/status"), _PAGE_TABLES)

    def _in_buffers(self, names: Iterable[str]) -> int:
        """Return the most that pipes and sockets of these processes may hold, each counted once."""
        open_files = {link for name in names for link in self._links(name)}
        sockets = sum(link.startswith("socket:") for link in open_files)
        pipes = sum(link.startswith("pipe:") for link in open_files)
        return sockets * self._socket_kb + pipes * _PIPE_KB

    def _links(self, name: str) -> list[str]:
        """Return what a process has open, as `/proc` names it: "socket:[4711]"."""
        try:
            folder = os.open(f"{name}/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._proc)
        except OSError:
            return []  # It has ended.
        try:
            numbers = os.listdir(folder)  # noqa: PTH208 - by descriptor
            if len(numbers) <= _FEW_FILES:
                return []
            return [link for number in numbers if (link := _link(number, folder))]
        except OSError:
            return []
        finally:
            os.close(folder)

    def _most_in_a_socket(self) -> int:
        """Return kilobytes: the sender's buffer, and half of one more, which the kernel lets in."""
        text = self._read("sys/net/core/wmem_default")
        return (int(text) // 1024 if text else _USUAL_SOCKET_KB) * 3 // 2

    def _namespace(self, name: str) -> str:
        return _link(f"{name}/ns/pid", self._proc)

    def _read(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY, dir_fd=self._proc)
            with os.fdopen(descriptor, "rb") as file:
                return file.read()
        except OSError:
            return b""  # The process has ended, perhaps between the two.


def _sum(text: bytes, names: tuple[bytes, ...]) -> int:
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(names))


def _link(path: str, folder: int) -> str:
    try:
        return os.readlink(path, dir_fd=folder)
    except OSError:
        return ""
