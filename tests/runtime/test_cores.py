"""Cores by affinity and by quota."""

import math
import os
from pathlib import Path

import pytest

from agentfly.runtime import cores
from agentfly.runtime.cores import affine_cores, cpu_quota, usable_cores


def quota(tmp_path: Path, own: str, files: dict[str, str]) -> float:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return cpu_quota(tmp_path / "own", tmp_path / "cgroup")


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, 2.0),
        ("0::/a\n", {"a/cpu.max": "300000 100000", "cpu.max": "50000 100000"}, 0.5),
        ("0::/of/the/host\n", {"cpu.max": "100000 50000\n"}, 2.0),
        (
            "3:cpu,cpuacct:/docker/1\n2:memory:/docker/1\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            2.5,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "1"}, math.inf),
        ("2:memory:/\n", {"memory/cpu.max": "1 1"}, math.inf),
        ("0::/\n", {"cpu.max": "rubbish"}, math.inf),
    ],
)
def test_quotas(tmp_path: Path, own: str, files: dict[str, str], expected: float) -> None:
    assert quota(tmp_path, own, files) == expected


def test_a_machine_without_control_groups_has_no_quota(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path / "none", tmp_path) == math.inf


@pytest.mark.parametrize(
    ("available", "expected"), [(0.5, 1), (1.0, 1), (3.9, 3), (8.0, 4), (math.inf, 4)]
)
def test_the_smaller_of_quota_and_affinity_counts(
    monkeypatch: pytest.MonkeyPatch, available: float, expected: int
) -> None:
    monkeypatch.setattr(cores, "affine_cores", lambda: 4)
    monkeypatch.setattr(cores, "cpu_quota", lambda: available)
    assert usable_cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_is_that_of_the_process() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert affine_cores() == usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)
