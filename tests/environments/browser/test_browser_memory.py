"""Bounds of browsers and of all their pages, with real processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentfly.environments.browser.chromium import memory
from agentfly.environments.browser.chromium.memory import PageMemory, private_mb
from agentfly.runtime.launch import processor_ticks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux")

EAT = "kept = bytes({mb} * 2**20); kept = kept + b'1'; print(flush=True); {work}input()"
COMPUTE = "from itertools import count; [None for n in count() if n > 2**40]; "


@contextmanager
def browser_page(mb: int, *, group: int = 0, work: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that holds so much memory, in a group of its own or in a browser's."""
    command = [sys.executable, "-c", EAT.format(mb=mb, work=work)]
    with subprocess.Popen(
        command, process_group=group, stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
            pages.check(page.pid, {page.pid: "renderer"})
        assert large.wait(30) != 0, "the largest is ended, though it is of the other browser"
        assert ends_by_itself(small)


def test_a_page_alone_is_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    with browser_page(40) as small, browser_page(80) as large:
        monkeypatch.setattr(memory, "PAGE_MB", private_mb(large.pid) + 50)
        monkeypatch.setattr(memory, "TOTAL_MB", private_mb(large.pid) + 10)
        pages = PageMemory()
        pages.check(large.pid, {large.pid: "renderer"})
        pages.forget(large.pid)
        pages.check(small.pid, {small.pid: "renderer"})
        assert ends_by_itself(large)
        assert ends_by_itself(small)


def test_a_process_of_another_group_is_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGE_MB", 1.0)
    with browser_page(40) as page:
        PageMemory().check(page.pid + 1, {page.pid: "renderer"})
        assert ends_by_itself(page)


def test_the_page_that_computes_is_ended_when_the_browser_itself_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        browser_page(80) as browser,
        browser_page(1, group=browser.pid) as idle,
        browser_page(1, group=browser.pid, work=COMPUTE) as busy,
    ):
        pages = PageMemory()
        kinds = {browser.pid: "browser", idle.pid: "renderer", busy.pid: "renderer"}
        pages.check(browser.pid, kinds)
        ticks = processor_ticks(busy.pid)
        while processor_ticks(busy.pid) == ticks:
            time.sleep(0.01)
        monkeypatch.setattr(memory, "BROWSER_MB", private_mb(browser.pid) - 10)
        pages.check(browser.pid, kinds)
        assert busy.wait(30) == -signal.SIGKILL
        assert ends_by_itself(idle)
        assert ends_by_itself(browser)


def test_a_page_that_computes_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAGE_SECONDS", 1.0)
    with (
        browser_page(1) as browser,
        browser_page(1, group=browser.pid) as idle,
        browser_page(1, group=browser.pid, work=COMPUTE) as busy,
    ):
        pages = PageMemory()
        while busy.poll() is None:
            pages.check(browser.pid, {idle.pid: "renderer", busy.pid: "renderer"})
            time.sleep(0.01)
        assert busy.returncode == -signal.SIGKILL
        assert ends_by_itself(idle)
