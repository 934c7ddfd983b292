"""Browser processes: many contexts, isolation, deaths, and nothing left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.environments.browser.browser_site import LocalSite, ids_of, start
from tests.environments.kit_play import play
from tests.patience import until, wait_until

from agentfly.environments import Say, Scene, call
from agentfly.environments.browser import BROWSER, BrowserOptions, BrowserSession
from agentfly.environments.browser.chromium import browser as browsers
from agentfly.environments.browser.chromium import context as contexts
from agentfly.environments.browser.chromium import memory
from agentfly.environments.browser.chromium import tab as tabs
from agentfly.environments.browser.chromium.browser import Browser
from agentfly.environments.browser.chromium.connection import (
    BrowserLostError,
    Connection,
    Params,
)
from agentfly.environments.browser.chromium.pool import browser_pool
from agentfly.environments.browser.chromium.tab import PageStuckError
from agentfly.environments.chromium_path import require_chromium
from agentfly.environments.player import Play
from agentfly.errors import EnvError
from agentfly.runtime.background import run_blocking
from agentfly.types import StopReason, Task

pytestmark = pytest.mark.browser


async def test_sixteen_chains_at_once_share_a_browser_and_nothing_else(site: LocalSite) -> None:
    body = """<title>Jar</title><button>Show</button><p id="out"></p><script>
        const mine = new URLSearchParams(location.search).get("mine");
        if (mine) { document.cookie = "a=" + mine; localStorage.setItem("b", mine); }
        document.querySelector("button").onclick = () => {
          out.textContent = document.cookie + " " + JSON.stringify(localStorage);
        };</script>"""
    site.pages["/jar"] = body
    sessions = [BrowserSession() for _ in range(16)]

    async def visit(number: int, session: BrowserSession) -> str:
        await start(session, site.task("/jar", body))
        shown = await session.open(f"/jar?mine={number}")
        find = ids_of(shown)
        return (await session.click(find("Show"))).observation

    async with asyncio.TaskGroup() as group:
        visits = [group.create_task(visit(n, session)) for n, session in enumerate(sessions)]
    assert len(browser_pool().browsers) == 1
    for number, done in enumerate(visits):
        assert f'"a={number} {{\\"b\\":\\"{number}\\"}}"' in done.result()
    again = await start(sessions[0], site.task("/jar", body))
    find = ids_of(again)
    assert '"{}"' in (await sessions[0].click(find("Show"))).observation
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(session.close())


def main_process(browser: Browser) -> int:
    """Return Chromium's main process: another one than we started if that was a script."""
    kinds = run_blocking(browser.process_ids())
    return next(pid for pid, kind in kinds.items() if kind == "browser")


def _until_lost(scene: Scene) -> Play:
    """Kill the browser in the middle of a chain, then go on."""
    del scene
    yield call("read")
    for browser in browser_pool().browsers:
        os.kill(main_process(browser), signal.SIGKILL)
    while True:
        yield call("read")


async def test_a_context_is_kept_ready_for_the_next_chain() -> None:
    first, second = BrowserSession(), BrowserSession()
    task = Task.from_row({"site": "miniwob", "task": "click-test", "seed": 1})
    await start(first, task)
    (browser,) = browser_pool().browsers
    await until(lambda: len(browser._warm) == 1)
    ready = browser._warm[0]
    await start(second, task)
    assert second._context is ready
    await first.close()
    await second.close()


async def test_a_chromium_without_windows_behind_a_script_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "chromium"
    script.write_text(f'#!/bin/sh\nexec {require_chromium()} --headless "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("AGENTFLY_CHROMIUM", str(script))
    monkeypatch.setenv("DISPLAY", ":7")
    task = Task.from_row({"site": "miniwob", "task": "click-test", "seed": 1})
    with pytest.raises(BrowserLostError, match=r"is HeadlessChrome/\d.*, which has no windows"):
        await start(BrowserSession(headed=True), task)


async def test_a_killed_browser_fails_its_chain_and_is_replaced() -> None:
    kit = BROWSER.make(BrowserOptions(tasks=("click-test",), episodes=1))
    (row,) = kit.tasks()
    lost = await play(kit, row, _until_lost)
    assert lost.stop is StopReason.ENV_CRASHED
    assert lost.reward is None
    assert "ended by SIGKILL" in (lost.error or "")
    solved = await play(kit, row, kit.expert)
    assert solved.reward == 1.0


async def test_a_killed_browser_fails_all_of_sixteen_chains(site: LocalSite) -> None:
    """Every chain gets the typed cause; none waits, and the next browser serves them all."""
    sessions = [BrowserSession() for _ in range(16)]
    task = site.task("/calm", "<p>Calm</p>")

    async def read_until_lost(session: BrowserSession) -> str:
        try:
            while True:
                await session.read()
        except BrowserLostError as error:
            return str(error)

    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(start(session, task))
    (browser,) = browser_pool().browsers
    async with asyncio.TaskGroup() as group:
        ends = [group.create_task(read_until_lost(session)) for session in sessions]
        os.kill(main_process(browser), signal.SIGKILL)
    assert all("ended by SIGKILL" in end.result() for end in ends)
    await until(lambda: not _in_group(browser.pid or 0))
    async with asyncio.TaskGroup() as group:
        again = [group.create_task(start(session, task)) for session in sessions]
    assert all("Calm" in one.result().observation for one in again)
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(session.close())


async def test_a_browser_that_hangs_is_replaced(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "HANG_SECONDS", 1.0)
    run_blocking(browser_pool().close())
    session = BrowserSession()
    task = site.task("/calm", "<p>Calm</p>")
    await start(session, task)
    (browser,) = browser_pool().browsers
    os.kill(main_process(browser), signal.SIGSTOP)
    with pytest.raises(BrowserLostError, match="the browser did not answer in time"):
        await session.read()
    assert not session.healthy()
    monkeypatch.undo()
    assert "Calm" in (await start(session, task)).observation
    await session.close()


async def test_a_browser_that_refuses_a_call_says_so(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Connection.send

    def refuse(
        connection: Connection,
        method: str,
        params: Params | None = None,
        *,
        session: str | None = None,
    ) -> asyncio.Future[Params]:
        wrong = method == "SystemInfo.getProcessInfo"
        return real(connection, "No.method" if wrong else method, params, session=session)

    run_blocking(browser_pool().close())
    monkeypatch.setattr(Connection, "send", refuse)
    session = BrowserSession()
    with pytest.raises(BrowserLostError, match=r"the browser refused a call: 'No.method'"):
        await start(session, site.task("/calm", "<p>Calm</p>"))
    await session.close()


async def test_only_what_a_tab_can_do_without_may_be_refused(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = BrowserSession()
    task = site.task("/calm", "<p>Calm</p>")
    refused: tuple[str, Params] = ("No.method", {})
    monkeypatch.setattr(tabs, "_OPTIONAL", (refused, *tabs._OPTIONAL))
    run_blocking(browser_pool().close())
    assert "Calm" in (await start(session, task)).observation
    monkeypatch.setattr(tabs, "_REQUIRED", (refused, *tabs._REQUIRED))
    run_blocking(browser_pool().close())
    with pytest.raises(BrowserLostError, match=r"could not be prepared: 'No.method'"):
        await start(session, task)
    await session.close()


async def test_a_tab_that_does_not_open_names_its_own_limit(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = BrowserSession()
    monkeypatch.setattr(contexts, "OPEN_SECONDS", 0.0)
    run_blocking(browser_pool().close())
    with pytest.raises(BrowserLostError, match=r"its tab was not ready within 0 s"):
        await start(session, site.task("/calm", "<p>Calm</p>"))
    await session.close()


async def test_the_model_is_shown_screenshots_by_option() -> None:
    def look(scene: Scene) -> Generator[Say, str, None]:
        del scene
        yield call("read")
        yield Say("I have looked.")

    for wanted in (True, False):
        options = BrowserOptions(tasks=("click-test",), episodes=1, screenshots=wanted)
        kit = BROWSER.make(options)
        (row,) = kit.tasks()
        looked = await play(kit, row, look)
        images = looked.turns[0].results[0].images
        assert [one.data[:4] for one in images] == [b"\x89PNG"] * wanted


async def test_a_page_that_is_stuck_while_its_picture_is_taken_is_left(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stuck(_: object) -> bytes:
        raise PageStuckError("it does not answer")

    session = BrowserSession()
    await start(session, site.task("/calm", "<p>Calm</p>"))
    monkeypatch.setattr(tabs.Tab, "screenshot", stuck)
    assert await session.screenshot() is None
    assert "The page was left: it does not answer." in (await session.read()).observation
    assert "Calm" in (await session.open("/calm")).observation
    await session.close()


@pytest.mark.parametrize("doing", ["read", "open"])
async def test_a_page_that_gets_no_processor_is_not_left(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    for limit in ("SCRIPT_SECONDS", "STUCK_SECONDS", "LOAD_SECONDS"):
        monkeypatch.setattr(tabs, limit, 1.0)
    session = BrowserSession()
    site.pages["/next"] = "<p>Calm too</p>"
    await start(session, site.task("/calm", "<p>Calm</p>"))
    (browser,) = browser_pool().browsers
    kinds = run_blocking(browser.process_ids())
    pages = [pid for pid, kind in kinds.items() if kind == "renderer"]
    async with asyncio.TaskGroup() as group:
        for pid in pages:
            os.kill(pid, signal.SIGSTOP)
        act = session.read() if doing == "read" else session.open("/next")
        acting = group.create_task(act)
        await asyncio.sleep(6)  # Longer than all limits together.
        assert not acting.done()
        for pid in pages:
            os.kill(pid, signal.SIGCONT)
    seen = acting.result().observation
    assert "Calm" in seen
    assert "was left" not in seen
    assert "was ended" not in seen
    await session.close()


async def test_a_page_that_takes_too_much_memory_is_left(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "PAGE_MB", 200.0)
    session = BrowserSession()
    body = """<p>Here</p><button onclick='window.kept = [];
        setInterval(() => kept.push(new Uint8Array(2e7).fill(1)), 20)'>Eat</button>"""
    first = await start(session, site.task("/eat", body))
    find = ids_of(first)
    seen = (await session.click(find("Eat"))).observation
    while "The page was left: it crashed or took too much memory" not in seen:
        seen = (await session.read()).observation
    assert "Calm" in (await start(session, site.task("/calm", "<p>Calm</p>"))).observation
    await session.close()


async def test_a_page_whose_workers_compute_without_end_is_left(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = BrowserSession()
    body = """<p>Here</p><button onclick='
        window.worker = new Worker(URL.createObjectURL(new Blob(["for (;;);"])))'>Work</button>"""
    first = await start(session, site.task("/work", body))
    monkeypatch.setattr(memory, "PAGE_SECONDS", 2.0)
    seen = (await session.click(ids_of(first)("Work"))).observation
    while "or processor time" not in seen:
        seen = (await session.read()).observation
    assert "Calm" in (await start(session, site.task("/calm", "<p>Calm</p>"))).observation
    await session.close()


async def test_a_page_that_fills_the_browsers_own_process_is_left(
    site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "BROWSER_MB", 300.0)
    calm, greedy = BrowserSession(), BrowserSession()
    await start(calm, site.task("/calm", "<p>Calm</p>"))
    body = """<p>Here</p><button onclick='window.kept = [];
        setInterval(() => kept.length < 40 && kept.push(
            new Blob([new Uint8Array(2e7).fill(1)])), 40)'>Keep</button>"""
    first = await start(greedy, site.task("/blobs", body))
    seen = (await greedy.click(ids_of(first)("Keep"))).observation
    while "The page was left: it crashed or took too much memory" not in seen:
        seen = (await greedy.read()).observation
    assert "Calm" in (await calm.read()).observation
    assert "Calm" in (await greedy.open(f"{site.address}/calm")).observation
    assert [browser.lost for browser in browser_pool().browsers] == [None]
    await calm.close()
    await greedy.close()


OWNER = """
import asyncio
from agentfly.environments.browser import BrowserSession
from agentfly.environments.browser.chromium.pool import browser_pool
from agentfly.types import Seed, Task
async def main():
    session = BrowserSession()
    task = Task.from_row({"site": "miniwob", "task": "click-test", "seed": 1})
    await session.reset(task, Seed(0))
    print(browser_pool().browsers[0].pid, flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""


def test_nothing_is_left_of_a_killed_owner() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    group = int(owner.stdout.readline())
    assert len(_in_group(group)) > 3
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_until(lambda: not _in_group(group))
    folders = Path(tempfile.gettempdir())
    assert list(folders.glob(f"agentfly-browser-{owner.pid}-*"))
    with browsers._profile_folder():
        assert not list(folders.glob(f"agentfly-browser-{owner.pid}-*"))


def _in_group(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.name))
    return found


async def test_closing_the_pool_ends_every_process(site: LocalSite) -> None:
    session = BrowserSession()
    await start(session, site.task("/calm", "<p>Calm</p>"))
    pids = [browser.pid for browser in browser_pool().browsers]
    run_blocking(browser_pool().close())
    await until(lambda: not any(_in_group(pid) for pid in pids if pid))
    with pytest.raises(EnvError, match="closed"):
        await session.read()
    await session.close()


async def test_a_server_that_does_not_run_is_named() -> None:
    with LocalSite() as stopped:
        task = stopped.task("/", "")
    server = stopped.address.removeprefix("http://")
    session = BrowserSession()
    with pytest.raises(EnvError, match=rf"{server} refuses the connection: is the server running"):
        await start(session, task)
    await session.close()


async def test_a_site_that_can_not_be_reached_fails_the_chain(site: LocalSite) -> None:
    session = BrowserSession()
    row = {"start": "http://127.0.0.1:9/", "instruction": "x", "check": "true"}
    with pytest.raises(EnvError, match="can't be opened"):
        await start(session, Task.from_row(row))
    await session.close()
