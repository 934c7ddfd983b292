"""Number of cores that this process may use, which is often less than the machine has.

A container limits processors in two ways: by an affinity (which of them), and by a quota (how much
time on them in each period). Threads beyond the quota don't help: once they have used it up
together, all of them are stopped until the next period.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def usable_cores() -> int:
    """Return how many threads can compute at once: by affinity and by quota, at least one."""
    return max(1, min(affine_cores(), math.floor(min(cpu_quota(), 2.0**31))))


def affine_cores() -> int:
    """Return how many cores this process may be scheduled on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_quota(own: Path = _OWN_CGROUP, cgroups: Path = _CGROUPS) -> float:
    """Return the cores' worth of time that this process and its siblings get; inf if unlimited.

    Args:
        own: Lists the control groups that this process is in.
        cgroups: Where their settings are.
    """
    return min((_quota(folder) for folder in _folders(own, cgroups)), default=math.inf)


def _folders(own: Path, cgroups: Path) -> Iterator[Path]:
    """Yield the folders whose limits hold: of each group and of all around it."""
    for line in (_read(own) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = cgroups / controllers
        # Inside a container the path may be the host's: then only the mount itself exists here.
        group = mount / path.lstrip("/")
        while group != mount:
            yield group
            group = group.parent
        yield mount


def _quota(folder: Path) -> float:
    """Read version 2's `cpu.max` or version 1's pair of files."""
    text = _read(folder / "cpu.max") or " ".join(
        _read(folder / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    )
    match text.split():
        case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period) > 0:
            return int(quota) / int(period)
        case _:  # "max", -1, or no limit here at all
            return math.inf


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
