"""What a real Chromium waits for before a page is shown."""

import asyncio
import time
from http.server import BaseHTTPRequestHandler

import pytest
from tests.environments.browser.browser_site import Body, LocalSite, answer, ids_of, start

from agentfly.environments.browser import BrowserSession
from agentfly.environments.browser.chromium import tab as tabs

pytestmark = pytest.mark.browser

LATE_SECONDS = 2.5
"""Delay of late answers: longer than it takes until a frame without requests counts as loaded."""


def late(body: str, media_type: str = "text/html") -> Body:
    """Return a page that takes a while."""
    sent = answer(body.encode(), {"Content-Type": media_type})
    assert callable(sent)

    def send(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(LATE_SECONDS)
        sent(handler)

    return send


async def test_the_way_back_in_a_frame_is_no_wait(session: BrowserSession, site: LocalSite) -> None:
    site.pages["/one"] = "<p>One</p><a href='/two'>On</a>"
    site.pages["/two"] = "<p>Two</p><a href='#part'>Part</a>"
    find = ids_of(await start(session, site.task("/outer", '<iframe src="/one"></iframe>')))
    two = await session.click(find('"On"'))
    await session.click(ids_of(two)('"Part"'))
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        assert '"Two"' in (await session.back()).observation
        assert '"One"' in (await session.back()).observation
        assert "no page before" in (await session.back()).observation


async def test_the_way_back_in_a_frame_that_was_removed_is_no_wait(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages |= {"/one": "<a href='/two'>On</a>", "/two": "<p>Two</p>"}
    remove = "document.querySelector('iframe').remove()"
    body = f'<iframe src="/one"></iframe><button onclick="{remove}">Remove</button>'
    find = ids_of(await start(session, site.task("/outer", body)))
    await session.click(find('"On"'))
    await session.click(find("Remove"))
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        assert "Remove" in (await session.back()).observation


async def test_the_way_back_from_a_page_waits_for_the_page_itself(
    session: BrowserSession, site: LocalSite
) -> None:
    await start(session, site.task("/calm", "<p>Calm</p>"))
    tab = session._page
    tab._awaited, tab._any_frame = True, False
    tab._on_event("Page.frameStartedLoading", {"frameId": "a child"})
    tab._on_event("Page.navigatedWithinDocument", {"frameId": "a child"})
    assert tab._awaited


async def test_a_frame_that_is_written_and_never_closed_is_not_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    write = """const inside = document.querySelector("iframe").contentDocument; inside.open();
        inside.write("<p>Written</p>")"""
    body = f"<p>Here</p><iframe></iframe><script>{write}</script>"
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        first = await start(session, site.task("/writes", body))
    assert '"Written"' in first.observation
    site.pages["/calm"] = "<a href='/writes'>Back</a>"
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        calm = await session.open("/calm")
        assert '"Written"' in (await session.click(ids_of(calm)("Back"))).observation


async def test_only_the_document_that_is_loading_can_say_that_it_has_loaded(
    session: BrowserSession, site: LocalSite
) -> None:
    await start(session, site.task("/calm", "<p>Calm</p>"))
    tab = session._page
    idle = {"frameId": tab.target, "name": "networkIdle"}
    tab._on_event("Page.frameStartedLoading", {"frameId": tab.target})
    tab._on_event("Page.lifecycleEvent", idle)
    assert tab._busy, "the one that is left is idle"
    tab._on_event("Page.frameNavigated", {"frame": {"id": tab.target}})
    tab._on_event("Page.lifecycleEvent", {**idle, "name": "DOMContentLoaded"})
    assert tab._busy
    tab._on_event("Page.lifecycleEvent", idle)
    assert not tab._busy


async def test_a_script_that_comes_late_is_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/late.js"] = late("document.title = 'Late'", "text/javascript")
    body = '<p>Here</p><script async src="/late.js"></script>'
    first = await start(session, site.task("/async", body))
    assert 'Page: "Late" (' in first.observation


COUNT = """let n = 0; const count = () => {
    out.textContent = `n = ${++n}`; if (n < 40) setTimeout(count, 10) };"""


@pytest.fixture
def longer_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page settle later, so that timers of a busy machine are no rest."""
    monkeypatch.setattr(tabs, "QUIET_MS", 150)


@pytest.mark.usefixtures("longer_quiet")
@pytest.mark.parametrize("nested", [False, True])
async def test_changes_in_a_frame_are_waited_for(
    session: BrowserSession, site: LocalSite, nested: bool
) -> None:
    script = f"<script>const out = document.querySelector('p'); {COUNT}</script>"
    site.pages["/counts"] = f"<p>none</p><button onclick='count()'>Count</button>{script}"
    site.pages["/nested"] = '<iframe src="/counts"></iframe>'
    frame = f'<iframe src="{"/nested" if nested else "/counts"}"></iframe>'
    find = ids_of(await start(session, site.task("/outer", frame)))
    assert '"n = 40"' in (await session.click(find("Count"))).observation


@pytest.mark.usefixtures("longer_quiet")
async def test_changes_in_an_open_shadow_root_are_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    body = f"""<div></div><script>
        const root = document.querySelector("div").attachShadow({{mode: "open"}});
        root.innerHTML = "<p>none</p><button>Count</button>";
        const out = root.querySelector("p"); {COUNT} root.querySelector("button").onclick = count;
        </script>"""
    find = ids_of(await start(session, site.task("/shadow", body)))
    assert '"n = 40"' in (await session.click(find("Count"))).observation


@pytest.mark.usefixtures("longer_quiet")
async def test_changes_in_a_shadow_root_that_is_new_are_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    body = f"""<button>Add</button><script>{COUNT} let out;
        document.querySelector("button").onclick = () => {{
          const host = document.body.appendChild(document.createElement("div"));
          out = host.attachShadow({{mode: "open"}}).appendChild(document.createElement("p"));
          count(); }}</script>"""
    find = ids_of(await start(session, site.task("/shadow", body)))
    assert '"n = 40"' in (await session.click(find("Add"))).observation


async def test_changes_in_frames_that_are_not_seen_are_not_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/busy"] = """<p></p><script>const out = document.querySelector("p");
        setInterval(() => { out.textContent += "x" }, 1)</script>"""
    body = '<button>Press</button><iframe src="/busy" width="0" height="0"></iframe>'
    find = ids_of(await start(session, site.task("/outer", body)))
    loop = asyncio.get_running_loop()
    took = []
    for _ in range(3):
        began = loop.time()
        await session.click(find("Press"))
        took.append(loop.time() - began)
    assert min(took) < tabs.MAX_SETTLE_MS / 1000
