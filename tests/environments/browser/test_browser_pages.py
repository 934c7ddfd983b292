"""Pages in a real Chromium: what is shown, and what can be done."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler

import pytest
from tests.environments.browser.browser_site import LocalSite, answer, ids_of, start

from agentfly.environments.browser import BrowserSession
from agentfly.environments.browser.chromium import tab as tabs
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime.background import run_blocking

pytestmark = pytest.mark.browser

FORM = """<!doctype html><title>Form</title><h1>Join</h1>
<label>Name <input id="name"></label> <label><input type="checkbox" id="agree"> I agree</label>
<select aria-label="Team"><option>red<option>blue</select>
<button id="send" disabled>Send</button> <a href="/second">Second</a>
<div style="display:none">secret</div> <input type="date" aria-label="Day">
<div id="cover" style="position:absolute;left:0;top:500px;width:300px;height:80px">over</div>
<button style="position:absolute;left:0;top:500px;width:90px" id="under">Under</button>
<script>cover.style.zIndex = 9; agree.onchange = () => { send.disabled = !agree.checked };
send.onclick = () => { document.title = 'sent ' + document.getElementById('name').value }
</script>"""


async def test_a_form_is_read_and_filled_in(session: BrowserSession, site: LocalSite) -> None:
    task = site.task("/form", FORM, check="document.title === 'sent Ada Ünal'")
    first = await start(session, task)
    assert "secret" not in first.observation
    for line in ('heading "Join"', 'textbox "Name" = ""', 'button "Send" (disabled)'):
        assert line in first.observation
    assert 'combobox "Team" = "red" of "red", "blue"' in first.observation
    find = ids_of(first)
    refused = await session.click(find("Send"))
    assert "is disabled" in refused.observation
    assert refused.invalid
    await session.type(find('"Name"'), "someone else")
    typed = await session.type(find('"Name"'), "Ada Ünal")
    assert 'textbox "Name" = "Ada Ünal" (focused)' in typed.observation
    chosen = await session.select(find('"Team"'), "blue")
    assert '"Team" = "blue"' in chosen.observation
    assert "has no option 'pink'" in (await session.select(find('"Team"'), "pink")).observation
    assert "a date such as" in (await session.type(find('"Day"'), "tomorrow")).observation
    assert '= "2024-05-31"' in (await session.type(find('"Day"'), "2024-05-31")).observation
    assert "is covered by 'over'" in (await session.click(find("Under"))).observation
    assert "no field to type into" in (await session.type(find("Second"), "x")).observation
    assert "There is no element 99" in (await session.click(99)).observation
    await session.click(find("I agree"))
    done = await session.click(find("Send"))
    assert done.done
    assert done.reward == 1.0


async def test_nothing_is_clicked_on_a_page_that_came_by_itself(
    session: BrowserSession, site: LocalSite
) -> None:
    go, arrived = threading.Event(), threading.Event()

    def when_told(handler: BaseHTTPRequestHandler) -> None:
        go.wait(60)
        handler.send_response(204)
        handler.end_headers()

    def tell(handler: BaseHTTPRequestHandler) -> None:
        arrived.set()
        handler.send_response(204)
        handler.end_headers()

    site.pages |= {"/go": when_told, "/arrived": tell}
    site.pages["/next"] = "<button onclick='window.clicked = 1'>Delete</button><img src='/arrived'>"
    leaves = "<script>setTimeout(() => fetch('/go').then(() => location.assign('/next')))</script>"
    first = await start(session, site.task("/first", f"<button>Keep</button>{leaves}"))
    go.set()
    await asyncio.to_thread(arrived.wait, 60)
    refused = await session.click(ids_of(first)("Keep"))
    assert refused.invalid
    assert "The page has changed since you saw it." in refused.observation
    assert "Delete" in refused.observation


async def test_nothing_is_typed_into_hidden_elements(
    session: BrowserSession, site: LocalSite
) -> None:
    body = """<input aria-label="A"><input aria-label="B" class="later">
        <select aria-label="List" class="later"><option>red<option>blue</select><p>Plain</p>
        <div><input aria-label="C"></div><button onclick="
        for (const one of document.querySelectorAll('.later')) one.style.visibility = 'hidden';
        document.querySelector('div').inert = true">Hide</button>"""
    changed = "[...document.querySelectorAll('.later')].map((one) => one.value).join() !== ',red'"
    first = await start(session, site.task("/hiding", body, check=changed))
    find = ids_of(first)
    await session.click(find("Hide"))
    await session.type(find('"A"'), "kept")
    said = [
        await session.type(find('"B"'), "secret"),
        await session.select(find('"List"'), "blue"),
        await session.press("x", find('"B"')),
        await session.press("x", find("Plain")),
        await session.type(find('"C"'), "secret"),
    ]
    shown = await session.read()
    assert all(one.invalid and not one.done for one in said)
    for one, number in zip(said[:3], map(find, ('"B"', '"List"', '"B"')), strict=True):
        assert one.observation.startswith(f"Element {number} is hidden now.")
    assert all("does not take the focus" in one.observation for one in said[3:])
    assert 'textbox "A" = "kept" (focused)' in shown.observation
    assert "secret" not in shown.observation


async def test_a_frame_of_the_same_site_is_part_of_the_page(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/inner"] = """<p>Inside</p><form><input name="b" aria-label="B"></form>
        <button onclick="parent.document.title = document.forms[0].b.value">Send</button>
        <button onclick="frameElement.style.visibility = 'hidden'">Hide</button>"""
    body = """<button onclick="document.querySelector('iframe').remove()">Remove</button>
        <input aria-label="A"><div style="height:300px"></div>
        <iframe src="/inner"></iframe><iframe src="data:text/html,x" title="Other"></iframe>"""
    first = await start(session, site.task("/outer", body))
    assert 'frame "Other"' in first.observation
    find = ids_of(first)
    typed = await session.type(find('"B"'), "from inside")
    assert 'textbox "B" = "from inside"' in typed.observation
    assert 'Page: "from inside" (' in (await session.click(find("Send"))).observation
    await session.click(find("Hide"))
    await session.type(find('"A"'), "kept")
    refused = await session.type(find('"B"'), "secret")
    number = find('"B"')
    assert f"Element {number} is hidden now" in refused.observation
    await session.click(find("Remove"))
    gone = f"Element {number} is no longer on the page."
    assert gone in (await session.type(number, "x")).observation
    assert 'textbox "A" = "kept"' in (await session.read()).observation


GRID = "".join(
    f"""<button onclick="top.document.title = 'B{n}'" style="position:absolute;padding:0;width:30px;
    height:20px;left:{20 + 50 * (n % 5)}px;top:{10 + 40 * (n // 5)}px">B{n}</button>"""
    for n in range(15)
)


@pytest.mark.parametrize(
    "style",
    [
        "border:9px solid;padding:40px 5px 5px 70px",
        "transform:scale(.6, .4)",
        "transform:rotate(60deg) scaleX(-1)",
        "rotate:-60deg;scale:.7",
        "zoom:1.5",
        "margin-top:2000px",
        "border-radius:40px",
    ],
)
async def test_items_in_frames_are_clicked_where_they_are(
    session: BrowserSession, site: LocalSite, style: str
) -> None:
    frame = f'<iframe style="{style};width:300px;height:150px" src="{{}}"></iframe>'
    site.pages["/grid"] = f"<body>{GRID}"
    site.pages["/nested"] = f"<body>{frame.format('/grid')}"
    around = '<div style="margin:90px;transform:rotate(10deg)">'
    find = ids_of(await start(session, site.task("/outer", around + frame.format("/grid"))))
    for name in ("B6", "B2", "B13"):
        assert f'Page: "{name}" (' in (await session.click(find(f'"{name}"'))).observation
    outer = frame.replace("300px", "800px").replace("150px", "700px").format("/nested")
    find = ids_of(await start(session, site.task("/outer", outer)))
    for name in ("B6", "B2", "B13"):
        assert f'Page: "{name}" (' in (await session.click(find(f'"{name}"'))).observation


async def test_what_is_on_top_of_a_frame_covers_its_items(
    session: BrowserSession, site: LocalSite
) -> None:
    button = "<button style='width:200px' onclick='top.document.title += 1'>{}</button>"
    site.pages["/deep"] = button.format("Deep")
    frame = '<iframe src="{}" style="position:absolute;left:0;top:{}px;height:{}px"></iframe>'
    site.pages["/inner"] = f"{button.format('Flat')}{frame.format('/deep', 60, 60)}"
    over = "position:absolute;left:0;top:0;width:{}px;height:400px;z-index:9;background:red"
    body = f"""<title>0</title><div id="over" style="{over.format(500)}">Over</div>
        <button style="margin-left:600px" onclick="over.style.width = '120px'">Less</button>
        {frame.format("/inner", 100, 200)}"""
    find = ids_of(await start(session, site.task("/outer", body)))
    for name in ("Flat", "Deep"):
        refused = await session.click(find(name))
        assert refused.invalid
        assert refused.observation == f"Element {find(name)} is covered by 'Over'."
    assert 'Page: "0" (' in (await session.click(find("Less"))).observation
    for name, clicks in (("Flat", "01"), ("Deep", "011")):
        assert f'Page: "{clicks}" (' in (await session.click(find(name))).observation


async def test_a_text_in_a_frame_is_typed_over(session: BrowserSession, site: LocalSite) -> None:
    site.pages["/inner"] = "<div contenteditable>old words</div>"
    first = await start(session, site.task("/outer", '<p>Here</p><iframe src="/inner"></iframe>'))
    typed = await session.type(ids_of(first)("old words"), "new")
    assert 'textbox = "new"' in typed.observation


@pytest.mark.parametrize("framed", [False, True])
async def test_a_wrong_value_changes_nothing(
    session: BrowserSession, site: LocalSite, framed: bool
) -> None:
    fields = """<input type="date" value="2024-01-02" aria-label="Day">
        <input type="color" value="#00ff00" aria-label="Color">
        <input type="range" aria-label="Size">
        <script>for (const one of document.querySelectorAll("input"))
          one.oninput = one.onchange = () => { top.document.title += "!" }</script>"""
    site.pages["/fields"] = fields
    body = "<title>As before</title>" + ('<iframe src="/fields"></iframe>' if framed else fields)
    find = ids_of(await start(session, site.task("/outer", body)))
    for name, value, example in (
        ("Day", "2024-02-30", "a date such as"),
        ("Color", "red", "a color such as"),
        ("Color", "", "a color such as"),
        ("Size", "abc", "a number such as"),
        ("Size", "", "a number such as"),
        ("Size", "7 px", "a number such as"),
    ):
        refused = await session.type(find(f'"{name}"'), value)
        assert refused.invalid
        assert example in refused.observation
    seen = (await session.read()).observation
    before = ('Page: "As before" (', '"Day" = "2024-01-02"', '"Color" = "#00ff00"')
    for line in (*before, '"Size" = "50"'):
        assert line in seen
    assert '"Day" = ""' in (await session.type(find('"Day"'), "")).observation
    assert '"Color" = "#ff00aa"' in (await session.type(find('"Color"'), "#FF00AA")).observation
    assert '"Size" = "70"' in (await session.type(find('"Size"'), "70")).observation


async def test_what_is_closed_or_skipped_is_not_listed(
    session: BrowserSession, site: LocalSite
) -> None:
    body = """<details><summary>More</summary>bare <b>bold</b><button>Buy</button></details>
        <div style="content-visibility:hidden">no text<button>No button</button>
        <p style="display:contents">no contents</p></div>
        <span style="content-visibility:hidden">inline</span>
        <div style="display:contents">contents<button>Both</button></div>
        <div style="height:5000px"></div>
        <div style="content-visibility:auto">far
        <button onclick="document.title = 'Went'">Go</button></div>"""
    first = await start(session, site.task("/closed", body))
    find = ids_of(first)
    shown = ["More", "inline contents", "Both", "far", "Go"]
    assert [line.split('"')[1] for line in first.observation.split("\n")[2:]] == shown
    opened = await session.click(find("More"))
    assert '"bare bold"' in opened.observation
    assert 'button "Buy"' in opened.observation
    assert 'Page: "Went" (' in (await session.click(find('"Go"'))).observation


async def test_drawings_in_a_frame_are_listed_and_clicked(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/drawing"] = """<svg width="90" height="90"><g><rect width="40" height="40"
        fill="red" onclick="top.document.title = 'Red'"/></g><title>Hint</title></svg>"""
    first = await start(session, site.task("/outer", '<iframe src="/drawing"></iframe>'))
    assert "Hint" not in first.observation
    assert 'Page: "Red" (' in (await session.click(ids_of(first)('rect "red'))).observation


ADD_FRAME = """const made = document.createElement("iframe"); made.src = this.title;
    document.body.append(made)"""


async def test_frames_that_are_added_are_waited_for(
    session: BrowserSession, site: LocalSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, go = threading.Event(), threading.Event()

    def late(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        go.wait(60)
        answer(b"<p>It came</p>", {"Content-Type": "text/html"})(handler)  # type: ignore[operator]

    site.pages["/late"] = late
    body = f"<p>Here</p><button title='/late' onclick='{ADD_FRAME}'>Add</button>"
    find = ids_of(await start(session, site.task("/adding", body)))
    async with asyncio.TaskGroup() as group:
        clicking = group.create_task(session.click(find("Add")))
        await asyncio.to_thread(asked.wait, 60)
        await asyncio.sleep(0.5)
        assert not clicking.done()
        go.set()
    assert "It came" in clicking.result().observation
    go.clear()
    monkeypatch.setattr(tabs, "LOAD_SECONDS", 1.0)
    find = ids_of(await session.read())
    assert "Here" in (await session.click(find("Add"))).observation
    monkeypatch.undo()
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        assert "Here" in (await session.read()).observation, "it was stopped"
    go.set()


async def test_frames_that_are_gone_are_not_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    await start(session, site.task("/calm", "<p>Calm</p>"))
    tab = session._page

    def report(event: str, frame: str) -> None:
        tab._on_event(f"Page.{event}", {"frameId": frame})

    tab._awaited = True
    report("frameStartedLoading", "a child")
    assert tab._awaited, "another frame's navigation"
    report("frameStartedLoading", tab.target)
    report("frameStoppedLoading", tab.target)
    assert tab._busy
    report("frameDetached", "a child")
    assert not tab._busy


async def test_what_another_document_left_is_not_waited_for(
    session: BrowserSession, site: LocalSite
) -> None:
    await start(session, site.task("/calm", "<p>Calm</p>"))
    tab = session._page
    for frame in (tab.target, "a child"):
        tab._on_event("Page.frameStartedLoading", {"frameId": frame})
    tab._on_event("Page.frameNavigated", {"frame": {"id": "a child", "parentId": tab.target}})
    assert tab._loading == {tab.target, "a child"}
    tab._on_event("Page.frameNavigated", {"frame": {"id": tab.target}})
    assert tab._loading == {tab.target}, "its frames are gone, and it loads itself"
    tab._on_event("Page.frameStoppedLoading", {"frameId": tab.target})
    tab._awaited = True
    tab._on_event("Page.navigatedWithinDocument", {"frameId": "a child"})
    assert tab._busy, "another frame's part after #"
    tab._on_event("Page.navigatedWithinDocument", {"frameId": tab.target})
    assert not tab._busy


@pytest.mark.parametrize("last", ["location = '/next'", "setTimeout(() => location = '/next', 9)"])
async def test_a_click_that_adds_a_frame_and_leaves_the_page_waits_for_the_next_one_only(
    session: BrowserSession, site: LocalSite, last: str
) -> None:
    go = threading.Event()

    def never(handler: BaseHTTPRequestHandler) -> None:
        go.wait(60)
        answer(b"", {"Content-Type": "text/html"})(handler)  # type: ignore[operator]

    site.pages |= {"/never": never, "/next": "<p>Next</p>"}
    body = f"""<button title="/never" onclick='{ADD_FRAME}; {last.replace("'", '"')}'>Go</button>"""
    find = ids_of(await start(session, site.task("/leaving", body)))
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        assert "Next" in (await session.click(find("Go"))).observation
    go.set()


async def test_the_way_back_within_a_document_is_no_wait(
    session: BrowserSession, site: LocalSite
) -> None:
    body = """<a href="#part">Part</a><p id="part">Here</p>
        <button onclick="history.pushState(0, '', '/pushed')">Push</button>"""
    find = ids_of(await start(session, site.task("/parts", body)))
    assert "/parts#part\n" in (await session.click(find("Part"))).observation
    assert "/pushed\n" in (await session.click(find("Push"))).observation
    async with asyncio.timeout(tabs.LOAD_SECONDS / 2):
        assert "/parts#part\n" in (await session.back()).observation
        assert "/parts\n" in (await session.back()).observation
        assert "no page before" in (await session.back()).observation


async def test_a_tab_that_a_page_opened_has_a_history(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/one"] = "<title>One</title><a href='/two'>Two</a>"
    site.pages["/two"] = "<title>Two</title><p>Here</p>"
    first = await start(session, site.task("/", "<a href='/one' target='_blank'>One</a>"))
    await session.click(ids_of(first)("One"))
    one = await session.tabs(2)
    assert 'Page: "Two" (' in (await session.click(ids_of(one)('link "Two"'))).observation
    assert 'Page: "One" (' in (await session.back()).observation
    assert "no page before" in (await session.back()).observation


async def test_numbers_of_another_page_mean_nothing(
    session: BrowserSession, site: LocalSite
) -> None:
    site.pages["/second"] = "<title>Second</title><p>Here</p><button>Other</button>"
    first = await start(session, site.task("/form", FORM))
    find = ids_of(first)
    second = await session.click(find("Second"))
    assert 'Page: "Second" (' in second.observation
    assert 'Page: "Form" (' in (await session.back()).observation
    assert "no page before" in (await session.back()).observation
    gone = "<button id=a onclick='b.remove()'>A</button><button id=b>B</button>"
    shown = await start(session, site.task("/gone", gone))
    find = ids_of(shown)
    await session.click(find('"A"'))
    assert "no longer on the page" in (await session.click(find('"B"'))).observation


HIDDEN_BY_FIELDS = (
    "assignedSlot",
    "attributes",
    "checkVisibility",
    "checked",
    "childNodes",
    "children",
    "classList",
    "className",
    "clientHeight",
    "contains",
    "disabled",
    "focus",
    "getAttribute",
    "getBoundingClientRect",
    "getClientRects",
    "getRootNode",
    "hasAttribute",
    "id",
    "innerText",
    "isConnected",
    "isContentEditable",
    "labels",
    "localName",
    "matches",
    "namespaceURI",
    "nodeType",
    "ownerDocument",
    "parentElement",
    "querySelector",
    "querySelectorAll",
    "readOnly",
    "scrollBy",
    "scrollHeight",
    "scrollIntoView",
    "scrollTop",
    "shadowRoot",
    "style",
    "tabIndex",
    "tagName",
    "textContent",
    "title",
    "type",
    "value",
)
"""Properties of a form that a field of this name hides."""


@pytest.mark.parametrize("framed", [False, True])
async def test_names_of_fields_do_not_hide_a_form(
    session: BrowserSession, site: LocalSite, framed: bool
) -> None:
    forms = "".join(
        f"""<form><input name="{name}" aria-label="Field {name}"></form>
        <input type="hidden" form="all" name="{name}">"""
        for name in HIDDEN_BY_FIELDS
    )
    text = """<form id="all" onclick="this.firstChild.data += '!'"
        style="height:20px;overflow:auto;white-space:pre">Text\n\n\n\n\n</form>"""
    site.pages["/inner"] = text + forms
    frame = '<iframe src="/inner" style="width:900px;height:600px"></iframe>'
    body = f"<p>Before</p>{frame if framed else text + forms}<p>After</p>"
    first = await start(session, site.task("/clobbered", body))
    for name in HIDDEN_BY_FIELDS:
        assert f'textbox "Field {name}"' in first.observation
    assert '"Before"' in first.observation
    assert '"After"' in first.observation
    find = ids_of(first)
    assert '"Text !"' in (await session.click(find('"Text"'))).observation
    assert '"Text\\n' in (await session.read(find('"Text"'))).observation
    assert "Scrolled." in (await session.scroll(id=find('"Text"'))).observation
    assert "no field to type into" in (await session.type(find('"Text"'), "x")).observation
    assert "no list to select from" in (await session.select(find('"Text"'), "x")).observation


HIDDEN_BY_NAMES = (
    "activeElement",
    "body",
    "createElement",
    "createRange",
    "defaultView",
    "elementFromPoint",
    "getSelection",
    "host",
    "ownerDocument",
    "title",
)
"""Properties that a form or an image of this name hides from the page's own scripts."""


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("named", ["<form name={}></form>", "<img name={} alt=''>"])
async def test_names_of_forms_and_images_do_not_hide_a_document(
    session: BrowserSession, site: LocalSite, named: str, framed: bool
) -> None:
    content = """<title>As before</title><p>Here</p><div contenteditable>old</div>
        <input type="date" aria-label="Day"><input aria-label="Name" value="before">
        <button onclick="this.textContent = 'Pressed'">Press</button>"""
    content += "".join(named.format(name) for name in HIDDEN_BY_NAMES)
    site.pages["/named"] = content
    frame = '<title>As before</title><iframe src="/named" width="800" height="500"></iframe>'
    first = await start(session, site.task("/clobbered", frame if framed else content))
    find = ids_of(first)
    hidden = "typeof (frames[0] ?? window).document.createElement"
    assert await session._page.evaluate(hidden) == "object", "the page's scripts can't call it"
    assert 'Page: "As before" (' in first.observation
    assert '"Here"' in first.observation
    assert 'textbox = "new"' in (await session.type(find("old"), "new")).observation
    assert '"Day" = "2024-01-02"' in (await session.type(find("Day"), "2024-01-02")).observation
    assert '"Name" = "after"' in (await session.type(find("Name"), "after")).observation
    assert '"Pressed"' in (await session.click(find('"Press"'))).observation
    if not framed:
        assert "Here" in (await session.read()).observation
    assert '"As before" (' in (await session.tabs()).observation


async def test_a_failure_of_our_own_script_is_logged_and_not_shown(
    session: BrowserSession, site: LocalSite, caplog: pytest.LogCaptureFixture
) -> None:
    await start(session, site.task("/calm", "<p>Calm</p>"))
    run_blocking(session._page._evaluate("agentfly.list = () => nothing.here", tabs.WORLD))
    shown = await session.read()
    assert shown.observation.startswith("The page was left: its elements can't be listed")
    assert "nothing" not in shown.observation
    assert "ReferenceError: nothing is not defined" in caplog.text


async def test_an_element_that_can_not_be_read_costs_only_itself(
    session: BrowserSession, site: LocalSite
) -> None:
    row = "<table><tr><td>1</td></tr></table>"
    await start(session, site.task("/calm", f"<p>Before</p>{row}<p>After</p>"))
    broken = "Object.defineProperty(HTMLTableRowElement.prototype, 'cells', { get: () => null })"
    run_blocking(session._page._evaluate(f"{broken}, 0", tabs.WORLD))
    shown = (await session.read()).observation.split("\n")[1:]
    assert shown == ['[1] "Before"', '[2] unreadable "tr"', '[3] "After"']


async def test_an_observation_is_bounded_whatever_an_element_holds(
    session: BrowserSession, site: LocalSite
) -> None:
    body = """<div role="slider" tabindex="0" aria-label="v" id="z">.</div><table><tr id="r"></tr>
        </table><select multiple id="m"></select><select id="o" aria-label="One"></select><script>
        z.setAttribute("aria-valuetext", "A".repeat(300000));
        for (let n = 0; n < 1500; n++) r.insertCell().textContent = "word".repeat(45);
        for (let n = 0; n < 3000; n++) m.add(new Option("word".repeat(45) + n, n, true, true));
        for (let n = 0; n < 3000; n++) o.add(new Option("word".repeat(45) + n));
        </script>"""
    seen = [(await start(session, site.task("/wide", body))).observation]
    listed = run_blocking(session._page.items(()))
    assert len(json.dumps(listed)) < 30_000
    while "last part" not in seen[-1]:
        seen.append((await session.scroll()).observation)
    assert all(len(one) <= 4000 + 150 for one in seen)
    for start_of in ('slider "v" = "AAA', 'row "word', 'listbox = "word', 'combobox "One" = "word'):
        (line,) = (line for one in seen for line in one.split("\n") if start_of in line)
        assert "…" in line or " more" in line


@pytest.mark.parametrize("changes_only", [False, True])
async def test_a_long_page_comes_in_parts(site: LocalSite, changes_only: bool) -> None:
    session = BrowserSession(part_chars=500, changes_only=changes_only)
    body = "".join(f"<p>Paragraph number {n}</p>" for n in range(100))
    first = await start(session, site.task("/long", body))
    assert "Part 1 of" in first.observation
    assert "Paragraph number 60" not in first.observation
    seen = [first.observation]
    while "last part" not in seen[-1]:
        seen.append((await session.scroll()).observation)
    assert all(sum(f'number {n}"' in one for one in seen) == 1 for n in range(100))
    await session.close()


async def test_only_changes_are_shown_by_option(site: LocalSite) -> None:
    session = BrowserSession(changes_only=True)
    body = "<p>Same</p><button onclick='this.textContent += 1'>Count</button>"
    first = await start(session, site.task("/count", body))
    find = ids_of(first)
    number = find("Count")
    after = await session.click(number)
    assert after.observation == f'+ [{number}] button "Count1" (focused)'
    assert "Same" in (await session.read()).observation
    await session.close()


async def test_keys_tabs_and_screenshots(session: BrowserSession, site: LocalSite) -> None:
    site.pages["/other"] = "<title>Other</title><p>Other page</p>"
    body = """<title>Keys</title><input aria-label="Box" onkeydown="
        if (event.key === 'Enter') document.title = this.value">
        <a href="/other" target="_blank">Open</a>"""
    first = await start(session, site.task("/keys", body))
    find = ids_of(first)
    await session.type(find("Box"), "abc")
    await session.press("Control+a")
    await session.press("x")
    assert 'Page: "x" (' in (await session.press("Enter", find("Box"))).observation
    assert "There is no key 'Hyper'" in (await session.press("Hyper")).observation
    opened = await session.click(find("Open"))
    assert "A new tab opened: 2" in opened.observation
    assert f'Tab 1 (here): "x" ({site.address}/keys)\n' in (await session.tabs()).observation
    assert "Other page" in (await session.tabs(2)).observation
    invalid = await session.open("//[")
    assert invalid.observation == "This is no valid address: '//['"
    assert invalid.invalid
    assert "There is no tab 7" in (await session.tabs(7)).observation
    picture = await session.screenshot()
    assert picture is not None
    assert picture.startswith(b"\x89PNG")


async def test_punctuation_is_typed_by_its_key(session: BrowserSession, site: LocalSite) -> None:
    body = '<input aria-label="Box" onkeyup="document.title = this.value">'
    find = ids_of(await start(session, site.task("/keys", body)))
    await session.type(find("Box"), "ab")
    await session.press("Home")
    for key in (".", "'", "("):
        await session.press(key)
    seen = await session.press("Shift+c")
    assert 'Page: ".\'(Cab" (' in seen.observation


async def test_a_check_that_can_not_be_compiled_is_a_mistake_in_its_row(
    session: BrowserSession, site: LocalSite
) -> None:
    headers = {"Content-Type": "text/html", "Content-Security-Policy": "script-src 'none'"}
    strict = answer(b"<p>Calm</p>", headers)
    with pytest.raises(ConfigError, match=r"'1 \+' of http.* is no JavaScript: SyntaxError"):
        await start(session, site.task("/strict", strict, check="1 +"))
    for check in ("1 > 2", "nothing.here > 0"):  # An error on a page means 0.
        first = await start(session, site.task("/strict", strict, check=check))
        assert "Calm" in first.observation
        assert session.outcome.reward == 0.0


@pytest.mark.parametrize(("check", "value"), [("0 / 0", "NaN"), ("1n", "1n"), ("'1'", "1")])
async def test_a_check_that_gives_no_number_fails_its_chain(
    session: BrowserSession, site: LocalSite, check: str, value: str
) -> None:
    expected = f"must give a number from 0 to 1, got '{value}'"
    with pytest.raises(EnvError, match=expected):
        await start(session, site.task("/", "<p>Calm</p>", check=check))


async def test_a_check_may_declare_names_each_time_it_is_evaluated(
    session: BrowserSession, site: LocalSite
) -> None:
    page = "<button onclick='document.title = Number(document.title) + 1'>Count</button>"
    task = site.task("/count", page, check="let seen = Number(document.title); seen / 2")
    find = ids_of(await start(session, task))
    await session.click(find("Count"))
    assert session.outcome.reward == 0.5
    await session.click(find("Count"))
    assert session.outcome.reward == 1.0
