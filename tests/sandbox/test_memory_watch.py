"""The watch over all memory of a sandbox must outlive every process that it looks at."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentfly.sandbox.inside import memory_watch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_a_process_that_ends_while_it_is_looked_at_holds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proc = os.open("/proc", os.O_RDONLY)
    watch = memory_watch.MemoryWatch(proc)
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    real_open, ended = os.open, []

    def open_then_end(*arguments: object, **options: object) -> int:
        descriptor = real_open(*arguments, **options)  # type: ignore[arg-type]
        victim.kill()
        victim.communicate()
        ended.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_end)
    assert watch._kilobytes(str(victim.pid)) == 0
    monkeypatch.undo()
    os.close(proc)
    assert ended, "the process was still there when its state was opened"


def a_process(
    proc: Path,
    name: str,
    kilobytes: dict[str, int],
    *,
    shares: dict[str, int] | None = None,
    links: Sequence[str] = (),
    space: str = "",
) -> None:
    """Write what /proc tells of a process; `shares` is what it holds beside others."""
    (proc / name / "fd").mkdir(parents=True)
    (proc / name / "ns").mkdir()
    (proc / name / "ns" / "pid").symlink_to(f"pid:[{space or name}]")
    first = "Name:\tpython\nVmPeak:\t 999999999 kB\n"
    (proc / name / "status").write_text(first + _table(kilobytes))
    if shares is not None:
        (proc / name / "smaps_rollup").write_text(_table({"Pss": 999999999, **shares}))
    for number, link in enumerate(links):
        (proc / name / "fd" / str(number)).symlink_to(link)


def _table(kilobytes: dict[str, int]) -> str:
    return "".join(f"{key}:\t{value:>8} kB\n" for key, value in kilobytes.items())


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a stand-in for /proc, whose server holds 100 MB."""
    a_process(tmp_path, "self", {"RssAnon": 100 << 10})
    return tmp_path


def over_limit(proc: Path, limits_mb: dict[int, int]) -> list[int]:
    descriptor = os.open(proc, os.O_RDONLY)
    try:
        return sorted(memory_watch.MemoryWatch(descriptor).over_limit(limits_mb))
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("kind", ["RssAnon", "RssShmem", "VmSwap", "VmPTE"])
def test_memory_of_every_kind_is_counted(proc: Path, kind: str) -> None:
    a_process(proc, "7", {"RssAnon": 100 << 10})
    a_process(proc, "8", {"RssAnon": 100 << 10} | {kind: (100 + 51) << 10})
    assert over_limit(proc, {7: 50, 8: 50}) == [8]


def test_the_processes_of_a_sandbox_are_added_up_and_what_is_inherited_counts_once(
    proc: Path,
) -> None:
    """Another program than Python's fork shares nothing with the server."""
    for name in ("7", "70", "71"):
        a_process(proc, name, {"RssAnon": 90 << 10}, space="seven")
    a_process(proc, "8", {"RssAnon": 120 << 10})
    assert over_limit(proc, {7: 169, 8: 169}) == [7]
    assert over_limit(proc, {7: 170, 8: 170}) == []


@pytest.mark.parametrize("kind", ["Pss_Anon", "Pss_Shmem", "SwapPss"])
def test_what_processes_share_counts_once(proc: Path, kind: str) -> None:
    """Three forks of one process that holds 300 MB hold 300 MB together, and page tables each."""
    for name in ("7", "70", "71"):
        whole = {"RssAnon": 300 << 10, "VmPTE": 1 << 10}
        a_process(proc, name, whole, shares={"Pss_Anon": 0, kind: 100 << 10}, space="seven")
    assert over_limit(proc, {7: 202}) == [7]
    assert over_limit(proc, {7: 203}) == []


def test_sockets_and_pipes_count_as_if_full_and_once(proc: Path) -> None:
    sockets = [f"socket:[{number}]" for number in range(100)]
    for name in ("7", "70"):
        a_process(proc, name, {"RssAnon": 50 << 10}, space="seven", links=sockets)
    a_process(
        proc, "8", {"RssAnon": 100 << 10}, links=[f"pipe:[{number}]" for number in range(100)]
    )
    a_process(proc, "9", {"RssAnon": 100 << 10}, links=["/usr/lib/file"] * 100)
    assert over_limit(proc, {7: 30, 8: 6, 9: 1}) == [7, 8]
    assert over_limit(proc, {7: 31, 8: 7, 9: 1}) == []


def test_a_machine_without_descriptors_is_looked_at_again(
    proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> list[str]:
        raise OSError(23, "Too many open files in system")

    monkeypatch.setattr(os, "listdir", refuse)
    assert over_limit(proc, {7: 1}) == []
