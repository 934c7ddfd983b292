"""The bound of memory that the pages of all browsers share, with real processes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentfly.environments.browser.chromium import memory
from agentfly.environments.browser.chromium.memory import PageMemory, private_mb

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")

EAT = "kept = bytes({mb} * 2**20); kept = kept + b'1'; print(flush=True); input()"


@contextmanager
def browser_page(mb: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process of a group of its own, which holds so much memory."""
    command = [sys.executable, "-c", EAT.format(mb=mb)]
    with subprocess.Popen(
        command, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as page:
        assert page.stdout is not None
        page.stdout.readline()
        try:
            yield page
        finally:
            page.kill()


def ends_by_itself(page: subprocess.Popen[bytes]) -> bool:
    """Let a page end, and return whether it was not killed before."""
    page.communicate(b"\n", timeout=30)
    return page.returncode == 0


def test_pages_of_all_browsers_share_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with browser_page(40) as small, browser_page(80) as large:
        sizes = [private_mb(page.pid) for page in (small, large)]
        monkeypatch.setattr(memory, "PAGE_MB", sum(sizes))
        monkeypatch.setattr(memory, "TOTAL_MB", sum(sizes) - 10)
        pages = PageMemory()
        for page in (large, small):
            pages.check(page.pid, [page.pid])
        assert large.wait(30) != 0, "the largest is ended, though it is of the other browser"
        assert ends_by_itself(small)


def test_a_page_alone_is_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with browser_page(40) as small, browser_page(80) as large:
        monkeypatch.setattr(memory, "PAGE_MB", private_mb(large.pid) + 50)
        monkeypatch.setattr(memory, "TOTAL_MB", private_mb(large.pid) + 10)
        pages = PageMemory()
        pages.check(large.pid, [large.pid])
        pages.forget(large.pid)
        pages.check(small.pid, [small.pid])
        assert ends_by_itself(large)
        assert ends_by_itself(small)


def test_a_process_of_another_group_is_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGE_MB", 1.0)
    with browser_page(40) as page:
        PageMemory().check(page.pid + 1, [page.pid])
        assert ends_by_itself(page)
