"""Memory and processor time of pages, from /proc; on other systems they are not bounded."""

import os
import signal
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from agentfly.runtime.launch import processor_ticks

PAGE_MB = 512.0
"""Maximum private memory of one page's process."""
TOTAL_MB = 6144.0
"""Maximum private memory of the pages of all browsers of this process; beyond it the largest page
is ended."""
BROWSER_MB = 768.0
"""Maximum private memory of a browser's own process, in which pages keep Blobs and databases.
Beyond it the page that has computed most since the last check is ended."""
PAGE_SECONDS = 120.0
"""Maximum processor time of a page's process: the limit of scripts covers none of its workers."""
DATA_LIMIT_KB = 2 << 20
"""The kernel's own limit of a process's memory, for what grows too fast to be watched."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK") if sys.platform == "linux" else 100


def private_mb(pid: int) -> float:
    """Return the private memory of a process in MB; 0 for one that has ended."""
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
        return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGESIZE") / (1 << 20)
    return 0.0


def proportional_mb(pid: int) -> float:
    """Return the memory of a process in MB, shared pages divided among those that share them."""
    with suppress(OSError):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        kb = next(line.split()[1] for line in rollup.splitlines() if line.startswith("Pss:"))
        return int(kb) / 1024
    return 0.0


class PageMemory:
    """Memory of several browsers and their pages, with one bound for all pages."""

    def __init__(self) -> None:
        self._pages: dict[int, dict[int, int]] = {}
        """Processes of pages with their processor time, by the process group of their browser."""

    def check(self, group: int, processes: Mapping[int, str]) -> None:
        """Record a browser's processes by kind; end pages above the bounds, in any browser."""
        if sys.platform != "linux":
            return
        before = self._pages.get(group, {})
        pages = [pid for pid, kind in processes.items() if kind == "renderer"]
        times = self._pages[group] = {pid: processor_ticks(pid) for pid in pages}
        owners = {pid: owner for owner, pids in self._pages.items() for pid in pids}
        ended = too_large((pid, private_mb(pid)) for pid in owners)
        ended += [pid for pid, ticks in times.items() if ticks > PAGE_SECONDS * _TICKS_PER_SECOND]
        own = [private_mb(pid) for pid, kind in processes.items() if kind == "browser"]
        if times and sum(own) > BROWSER_MB:
            ended.append(max(times, key=lambda pid: times[pid] - before.get(pid, 0)))
        for pid in ended:
            # The number may have been given to another process meanwhile.
            with suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) == owners[pid]:
                    os.kill(pid, signal.SIGKILL)

    def forget(self, group: int) -> None:
        """Remove a browser that has ended."""
        self._pages.pop(group, None)


def too_large(pages: Iterable[tuple[int, float]]) -> list[int]:
    """Return the processes to end: each that is too large, and the largest until all are in bounds.

    >>> too_large([(1, 600.0), (2, 300.0)]), too_large([(pid, 500.0) for pid in range(14)])
    ([1], [0, 1])
    """
    by_size = sorted(pages, key=lambda page: -page[1])
    ended = [pid for pid, size in by_size if size > PAGE_MB]
    left = [(pid, size) for pid, size in by_size if size <= PAGE_MB]
    while sum(size for _, size in left) > TOTAL_MB:
        ended.append(left.pop(0)[0])
    return ended
