"""The page in a real Chromium: runs, filters, chains, live updates, large runs, hostile text.

Screenshots are kept in the folder `agentfly-screenshots` of the system's temporary files.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.observe.recorded_runs import record_run
from tests.patience import PATIENCE, wait_until
from tests.serve.hostile import hostile_group
from tests.serve.large_run import CHAINS, STEPS, write_large_run
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.environments.chromium_path import require_chromium
from agentfly.observe.credit_file import find_credit
from agentfly.observe.recorded_run import RecordedRun
from agentfly.serve.viewer import viewer

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "examples" / "tiny_calculator.toml"
TRAIN = (sys.executable, "-m", "agentfly.cli", "train", str(SETTINGS))
SMALL = (
    *("rollout.tasks_per_step=2", "rollout.num_chains=4", "rollout.max_turns=3"),
    *("rollout.mask=last_turn_only", "train.minibatches=1", "eval.at_start=false"),
    *("eval.num_chains=1", "track.trackers=[]", "checkpoint.every=100"),
)
WIDE, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
SCREENSHOTS = Path(tempfile.gettempdir()) / "agentfly-screenshots"
MILLISECONDS = 1000 * PATIENCE


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium, options = require_chromium(), ["--no-sandbox"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real run of two steps, with one token mask for each turn, and a hostile one."""
    folder = tmp_path_factory.mktemp("runs")
    overrides = [*SMALL, f"folder={folder}", "name=trained", "train.steps=2", "eval.at_end=false"]
    # In a process of its own: Playwright's event loop is at work in this one.
    subprocess.run([*TRAIN, *overrides, "--trust"], check=True, timeout=PATIENCE)
    record_run(folder / "hostile", steps={1: [hostile_group()]})
    return folder


@pytest.fixture(scope="module")
def site(runs: Path) -> Iterator[str]:
    with viewer(runs) as url:
        yield url


@pytest.fixture(scope="module")
def screenshots() -> Path:
    SCREENSHOTS.mkdir(exist_ok=True)
    print(f"screenshots: {SCREENSHOTS}")
    return SCREENSHOTS


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    size: dict[str, int] = WIDE,
    theme: Any = "light",
    expected: str | None = None,
) -> Iterator[Page]:
    """Open the page; anything that its console calls an error fails the test."""
    errors: list[str] = []
    page = browser.new_page(
        viewport={"width": size["width"], "height": size["height"]}, color_scheme=theme
    )
    page.set_default_timeout(MILLISECONDS)
    expect.set_options(timeout=MILLISECONDS)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}"))
    page.goto(url)
    try:
        yield page
    finally:
        page.close()
    assert [error for error in errors if expected is None or expected not in error] == []


def go(page: Page, address: str) -> None:
    page.evaluate("address => { location.hash = address; }", address)


def test_from_the_list_to_a_token(browser: Browser, site: str, runs: Path) -> None:
    with opened(browser, site) as page:
        assert "token" not in page.url
        page.get_by_role("link", name="trained").click()
        expect(page.locator("#run-name")).to_have_text("trained")
        expect(page.locator(".badge.good").first).to_have_text("finished")
        expect(page.locator("figure.chart path.line").first).to_be_attached()
        page.get_by_role("link", name="Chains", exact=True).click()
        rows = page.locator("table.chains tbody tr")
        expect(rows).to_have_count(16)
        page.get_by_label("from step").fill("2")
        expect(rows).to_have_count(8)
        page.get_by_label("text in the chain").fill("no such words")
        expect(page.get_by_text("No chain matches.")).to_be_visible()
        page.get_by_label("text in the chain").fill("CALCULATOR")
        expect(rows).to_have_count(8)
        page.get_by_role("button", name="reward").click()
        expect(page.locator("th[aria-sort=descending]")).to_contain_text("reward")
        assert "sort=reward" in page.url
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator(".tokens .token").first).to_be_visible()
        _colors_agree_with_the_record(page, runs / "trained")


def _colors_agree_with_the_record(page: Page, run: Path) -> None:
    """Compare every token's class and color with the mask that training recorded."""
    shown = page.evaluate(
        "() => [...document.querySelectorAll('.bubble.assistant .token')].map("
        "token => [token.className, getComputedStyle(token).backgroundColor])"
    )
    found = re.search(r"file=(step_\d+)&chain=([^&]+)", page.url)
    assert found
    chain_id = found[2].replace("%2F", "/")
    credit = find_credit(run / "trajectories" / f"advantages_{found[1][5:]}.jsonl.gz", chain_id)
    file = RecordedRun(run).chain_file(int(found[1][5:]))
    chain = file.find(chain_id)
    assert credit is not None
    assert chain is not None
    (stream,), (masks,) = chain.streams, credit.streams
    sampled = [on for on, drawn in zip(masks.mask, stream.sampled, strict=True) if drawn]
    assert True in sampled
    assert [("trained" in name.split()) for name, _ in shown] == sampled
    colors = {
        on: {color for (_, color), is_on in zip(shown, sampled, strict=True) if is_on is on}
        for on in set(sampled)
    }
    assert all(len(found) == 1 for found in colors.values())
    assert len(set().union(*colors.values())) == len(colors), "masked tokens look different"


def _credited_chain(run: Path) -> tuple[int, str]:
    """Find a chain that the run learned from, so that all of its numbers are recorded."""
    for step in (1, 2):
        for chain in RecordedRun(run).chains(step):
            file = run / "trajectories" / f"advantages_{step}.jsonl.gz"
            credit = find_credit(file, chain.chain_id)
            if credit is not None and credit.streams[0].entropies is not None:
                return step, chain.chain_id
    raise AssertionError("no group of the run had any spread")


def test_the_numbers_of_a_token_by_pointer_and_by_keys(
    browser: Browser, site: str, runs: Path
) -> None:
    step, chain = _credited_chain(runs / "trained")
    with opened(browser, site) as page:
        go(page, f"#/run/trained/chain?file=step_{step}&chain={chain}")
        token = page.locator(".bubble.assistant .token").nth(2)
        token.hover()
        panel = page.locator(".token-panel")
        for name in ("log-probability", "advantage", "entropy", "weights"):
            expect(panel).to_contain_text(name)
        page.mouse.move(0, 0)
        expect(panel).to_be_hidden()
        page.locator(".tokens").first.focus()
        page.keyboard.press("ArrowRight")
        expect(panel).to_contain_text("token 1 of")
        page.keyboard.press("ArrowRight")
        expect(panel).to_contain_text("token 2 of")
        for color in ("log-probability", "advantage", "entropy", "weights version"):
            page.get_by_role("radio", name=color).check(force=True)
            expect(page.locator(".chain-tools .legend")).not_to_be_empty()
        page.keyboard.press("Escape")
        shared = page.url
        assert "color=version" in shared
        page.goto("about:blank")
        page.goto(shared)
        expect(page.get_by_role("radio", name="weights version")).to_be_checked()


def test_a_shared_link_opens_from_a_page_of_another_site(
    browser: Browser, site: str, runs: Path
) -> None:
    step, chain = _credited_chain(runs / "trained")
    with opened(browser, site) as page:
        expect(page.get_by_role("link", name="trained")).to_be_visible()
        shared = f"{page.url}#/run/trained/chain?file=step_{step}&chain={chain}"
        for link in (shared, f"{site}#/run/trained"):
            page.goto("data:text/html,<a>a message</a>")
            page.evaluate("link => { document.querySelector('a').href = link; }", link)
            page.get_by_text("a message").click()
            expect(page.locator(".token, #run-name").first).to_be_visible()


def test_a_run_is_followed_while_it_trains(browser: Browser, tmp_path: Path) -> None:
    overrides = [*SMALL, f"folder={tmp_path}", "name=live", "train.steps=50", "eval.every=0"]
    command = [*TRAIN, *overrides, "--trust"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as training:
        try:
            wait_until((tmp_path / "live" / "run.json").exists)
            with viewer(tmp_path) as url, opened(browser, url) as page:
                go(page, "#/run/live")
                expect(page.locator(".badge.busy")).to_have_text("running")
                tile = page.locator(".tile .value").first
                expect(tile).to_have_text(re.compile(r"[1-9]\d* / 50"))
                before = tile.inner_text()
                page.evaluate("window.unchanged = true")
                expect(tile).not_to_have_text(before)
                assert page.evaluate("window.unchanged"), "the page was not loaded again"
                training.terminate()
                training.wait(timeout=PATIENCE)
                (tmp_path / "live" / "findings.json").write_text('{"findings": []}')
                expect(page.locator(".head .badge").first).to_have_text("stopped")
        finally:
            training.kill()


def test_hostile_text_is_harmless_in_the_page(browser: Browser, site: str) -> None:
    with opened(browser, site, expected="TrustedHTML") as page:
        go(page, "#/run/hostile/chains")
        page.locator("table.chains tbody tr a").first.click()
        expect(page.locator(".call")).to_contain_text("<script>document.title='hacked'</script>")
        _is_harmless(page)
        page.keyboard.press("g")
        expect(page.locator(".column")).to_contain_text("<script>")
        _is_harmless(page)
        go(page, "#/run/hostile/ask/tools")
        expect(page.locator("main table").first).to_contain_text("<script>")
        _is_harmless(page)
        # Even a mistake of ours would meet the policy: HTML can't be made from text.
        refused = page.evaluate(
            "() => { try { document.body.innerHTML = '<b>x</b>'; return ''; }"
            " catch (error) { return error.name; } }"
        )
        assert refused == "TypeError"


def _is_harmless(page: Page) -> None:
    assert "hacked" not in page.title()
    assert page.locator("main script, main style, main a[href^=javascript]").count() == 0
    assert page.locator("main img").count() == 0


def test_hostile_text_is_harmless_in_the_terminal(runs: Path) -> None:
    for arguments in ((), ("1",), ("1", "--tokens")):
        shown = CliRunner().invoke(app, ["show", str(runs / "hostile"), *arguments]).output
        controls = {c for c in shown if not c.isprintable()} - {"\n"}
        assert not controls, arguments
    assert "<script>" in CliRunner().invoke(app, ["show", str(runs / "hostile"), "1"]).output


VIEWS = {
    "runs": ("#/", "table.rows"),
    "run": ("#/run/trained", "path.line"),
    "chains": ("#/run/trained/chains", "table.chains tbody tr"),
    "questions": ("#/run/trained/ask/tools", ".sentence"),
    "settings": ("#/run/trained/settings?with=hostile", "table.rows"),
    "compare": ("#/compare/trained/hostile", "path.line"),
}


@pytest.mark.parametrize(
    ("size", "theme"), [(WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")]
)
def test_every_view_fits_and_has_names(
    browser: Browser, site: str, screenshots: Path, size: dict[str, int], theme: str
) -> None:
    with opened(browser, site, size=size, theme=theme) as page:
        for name, (address, sign) in VIEWS.items():
            go(page, address)
            expect(page.locator(sign).first).to_be_attached()
            _look(page, screenshots / f"{name}_{size['width']}_{theme}.png")
        go(page, "#/run/trained/chains?from_step=2")
        page.locator("table.chains tbody tr a").first.click()
        expect(page.locator(".token").first).to_be_visible()
        page.keyboard.press("r")
        _look(page, screenshots / f"chain_{size['width']}_{theme}.png")
        page.keyboard.press("g")
        expect(page.locator(".column").first).to_be_visible()
        _look(page, screenshots / f"group_{size['width']}_{theme}.png")


NAMELESS = """() => {
    const parts = 'main button, main input, main select, main a, main svg[role=img]';
    const name = one => one.getAttribute('aria-label') || one.textContent.trim()
        || one.closest('label')?.textContent.trim();
    return [...document.querySelectorAll(parts)].filter(one => !name(one))
        .map(one => one.outerHTML.slice(0, 200));
}"""
"""Finds parts of the page that a screen reader could not name."""


def _look(page: Page, file: Path) -> None:
    page.screenshot(path=str(file), full_page=True)
    wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide <= 0, f"{file.name}: the page must be scrolled sideways"
    assert page.evaluate(NAMELESS) == []


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """A viewer in a process of its own, whose memory is its own."""
    command = [sys.executable, "-m", "agentfly.cli", "view", str(folder), "--port", "0"]
    with subprocess.Popen([*command, "--no-browser"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            found = re.search(r"http://\S+", server.stderr.readline())
            assert found
            yield found[0], server.pid
        finally:
            server.terminate()  # Ctrl-C is ignored by what a shell started in the background.
            server.wait(timeout=PATIENCE)


PAGE_ROWS = 50
MAX_ANSWER_BYTES = 64 << 10
MAX_SERVER_MB = 250
"""The chains take four times this when they are unpacked, and more as objects."""


@pytest.mark.timeout(3600)
def test_ten_thousand_chains_of_two_thousand_tokens(browser: Browser, tmp_path: Path) -> None:
    run = write_large_run(tmp_path / "large")
    # Unpacked chains that are there before the first rows: one page; with an index, one file of it.
    for visit, most in (("first visit", PAGE_ROWS), ("again", CHAINS)):
        with served(tmp_path) as (url, pid), opened(browser, url) as page:
            expect(page.get_by_role("link", name="large")).to_be_visible()
            times = _first_page(page, most)
            times += _work(page, STEPS * CHAINS)
            read, memory = _read_megabytes(pid), _peak_memory(pid)
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            files = _megabytes(run / "trajectories")
            print(
                f"{visit}: {times}; tab {heap:.0f} MB of JavaScript, server at most "
                f"{memory:.0f} MB, which read {read:.0f} MB; chains {files:.0f} MB, index "
                f"{_megabytes(run / 'index'):.0f} MB"
            )
            assert memory < MAX_SERVER_MB
            # Python's own modules are among what the server reads.
            assert visit == "first visit" or read < files / 2


def _first_page(page: Page, most: int) -> str:
    """Open the table; return how long its first rows took, and the index of all."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    started = time.monotonic()
    with page.expect_response(re.compile(r"/chains\?")) as answered:
        go(page, "#/run/large/chains")
    expect(page.locator("table.chains tbody tr").nth(20)).to_be_visible()
    first = time.monotonic() - started
    body = answered.value.body()
    found = json.loads(body)
    assert next(url for url in asked if "/api/" in url) == answered.value.url, "nothing else first"
    assert len(found["rows"]) == PAGE_ROWS <= found["all"] <= most
    assert found["indexed"] <= 1.1 * most / (STEPS * CHAINS), "no more was read than that"
    assert len(body) < MAX_ANSWER_BYTES
    whole = page.get_by_role("status").filter(has_text=re.compile(f"^{STEPS * CHAINS:,} chains$"))
    expect(whole).to_be_visible(timeout=10 * MILLISECONDS)
    expect(page.locator("table.chains tbody tr")).to_have_count(PAGE_ROWS)
    return f"first rows after {first:.2f} s, all indexed after {time.monotonic() - started:.1f} s, "


def _work(page: Page, total: int) -> str:
    """Sort, go to the last page, open a chain; return how long each took."""
    started = time.monotonic()
    page.get_by_role("button", name="reward").click()
    expect(page.locator("th[aria-sort=descending]")).to_contain_text("reward")
    is_sorted = time.monotonic()
    go(page, f"#/run/large/chains?offset={total - 50}")
    expect(page.get_by_label("Pages")).to_contain_text(f"{total:,} of {total:,}")
    is_last = time.monotonic()
    page.locator("table.chains tbody tr a").first.click()
    expect(page.locator(".token").nth(1999)).to_be_attached()
    return (
        f"sorting took {is_sorted - started:.2f} s, the last page {is_last - is_sorted:.2f} s, "
        f"a chain of 2,000 tokens {time.monotonic() - is_last:.2f} s"
    )


def _read_megabytes(pid: int) -> float:
    found = re.search(r"rchar: (\d+)", Path(f"/proc/{pid}/io").read_text())
    assert found
    return int(found[1]) / 1e6


def _peak_memory(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1e3


def _megabytes(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.iterdir()) / 1e6
