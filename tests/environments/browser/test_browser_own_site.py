"""Sites of users' own, without Chromium: their rows and their checks."""

import json
import sys
import threading
from pathlib import Path
from typing import cast
from unittest.mock import ANY

import pytest

from agentfly.agents.source_parts import resolve_source
from agentfly.config import SettingsError, SourceSettings
from agentfly.environments.browser.address import Access
from agentfly.environments.browser.options import BrowserOptions
from agentfly.environments.browser.site import ScriptError
from agentfly.environments.browser.sites import make_site, own
from agentfly.environments.browser.sites.own import (
    Check,
    CheckedPage,
    OwnSite,
    find_check,
    read_score,
)
from agentfly.environments.browser.tasks import training_rows
from agentfly.errors import ConfigError, EnvError
from agentfly.runtime.background import in_background, run_blocking
from agentfly.tasks import load_tasks

NO_STARTS = (
    "file:///etc",
    "http://[::1/",
    "http://user:secret@localhost:3000/",
    "http://@localhost:3000/",
    "http://localhost:0/",
    "http://localhost:99999/",
    "http://*.example.com/",
)


def test_rows_of_your_own_are_checked_before_a_browser_starts(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    row: dict[str, object] = {
        "start": "http://localhost:3000/",
        "instruction": "Do it.",
        "check": "true",
    }
    file.write_text(json.dumps(row))
    (found,) = training_rows(BrowserOptions(site="own", rows=file))
    site = make_site(found, BrowserOptions(site="own", allow=("cdn.example",)))
    assert site.rules.access("http://cdn.example/x.js") is Access.FETCH
    assert site.rules.access("http://localhost:3000/cart") is Access.FETCH
    no_start = "without '*.', user or password; got"
    bad_rows: list[tuple[dict[str, object], str]] = [
        ({**row, "check": None}, ": check is missing. A row of your own site has start, "),
        *(({**row, "check": check}, ": check is empty. ") for check in ("", " \n")),
        *(({**row, "start": start}, f"{no_start} {start!r}") for start in NO_STARTS),
        ({**row, "start": 7}, ": start must be a text, got 7. "),
        ({"instruction": ""}, ": start is missing; check is missing. "),
    ]
    for bad, expected in bad_rows:
        file.write_text(f"{json.dumps(row)}\n{json.dumps(bad)}\n")
        with pytest.raises(ConfigError) as raised:
            training_rows(BrowserOptions(site="own", rows=file))
        assert expected in str(raised.value)
        assert f"{file}:2: " in str(raised.value)
        hint = 'named in the options instead: check = "module:function"'
        assert (hint in str(raised.value)) == ("check is" in expected)
    with pytest.raises(ConfigError, match="needs a file of tasks"):
        training_rows(BrowserOptions(site="own"))
    with pytest.raises(EnvError, match="a number from 0 to 1"):
        read_score(7, "http://a.test")


class FakePage:
    """A page without a browser, in which no script can be compiled."""

    url = "http://a.test/"

    def __init__(self, value: object = None, error: Exception | None = None) -> None:
        self._value = value
        self._error = error

    async def evaluate(self, expression: str) -> object:
        if self._error is not None:
            raise self._error
        return self._value

    async def syntax_error(self, expression: str) -> str | None:
        return f"SyntaxError in {expression}"

    async def text(self) -> str:
        return "Hello"


def own_site(check: Check | None) -> OwnSite:
    return OwnSite({"start": "http://a.test/", "instruction": "", "check": "a b"}, (), check)


async def _seven() -> int:
    return 7


def test_a_check_that_waits_delays_no_other_chain() -> None:
    released = threading.Event()

    def wait(page: CheckedPage) -> float:
        return float(page.text == "Hello" and released.wait(60))

    checking = in_background(own_site(wait).check(FakePage()))
    try:
        assert in_background(_seven()).result(timeout=20) == 7
        assert not checking.done()
    finally:
        released.set()
    assert checking.result().reward == 1.0


def test_a_check_that_never_returns_fails_its_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def never(page: CheckedPage) -> float:
        return float(released.wait(60))

    monkeypatch.setattr(own, "CHECK_SECONDS", 0.25)
    try:
        with pytest.raises(EnvError, match=r"test_browser_own_site:.*never .*within 0\.25 s"):
            run_blocking(own_site(never).check(FakePage()))
        assert run_blocking(_seven()) == 7
    finally:
        released.set()


@pytest.mark.parametrize(
    "error", [KeyError("boom"), SystemExit(3), KeyboardInterrupt(), ConfigError("wrong")]
)
def test_a_check_that_raises_fails_its_chain(error: BaseException) -> None:
    def fail(page: CheckedPage) -> float:
        raise error

    named = f"test_browser_own_site:.*fail .*{type(error).__name__}|failed: wrong"
    with pytest.raises(EnvError, match=named):
        run_blocking(own_site(fail).check(FakePage()))
    assert run_blocking(_seven()) == 7


async def test_a_check_that_throws_scores_nothing_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(own, "_reported", set())
    page = FakePage(error=ScriptError("TypeError: document.querySelectr is not a function\n at x"))
    for _ in range(2):
        assert (await own_site(None).check(page)).reward == 0.0
    (logged,) = caplog.messages
    assert logged == (
        "the check 'a b' of http://a.test/ scored 0, because it threw: "
        "TypeError: document.querySelectr is not a function"
    )


async def test_only_a_check_in_javascript_may_give_nothing() -> None:
    assert (await own_site(None).check(FakePage(None))).reward == 0.0
    assert (await own_site(None).check(FakePage("-0"))).reward == 0.0
    assert (await own_site(None).check(FakePage(value=True))).done

    def forgotten(page: CheckedPage) -> None:
        del page

    check = cast("Check", forgotten)
    with pytest.raises(EnvError, match="a number from 0 to 1, got None"):
        run_blocking(own_site(check).check(FakePage()))


def test_a_check_is_found_beside_the_settings_that_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTFLY_CHROMIUM", sys.executable)  # It is not started.
    name = "checks_beside_a_run"
    own, elsewhere = tmp_path / "own", tmp_path / "elsewhere"
    own.mkdir()
    elsewhere.mkdir()
    (own / f"{name}.py").write_text("def cart(page):\n    return 1.0\n")
    row = {"start": "http://localhost:3000/", "instruction": "Do it."}
    (own / "rows.jsonl").write_text(json.dumps(row))
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "path", [*sys.path])
    choices = {"site": "own", "rows": "rows.jsonl", "check": f"{name}:cart"}
    source = SourceSettings(environment="browser", options=choices)
    parts = resolve_source(source, base=own)
    assert [task.fields for task in load_tasks(parts.tasks)] == [{"id": ANY, **row}]
    assert parts.environment is not None
    session = parts.environment.make()
    assert isinstance(make_site(row, session.options), OwnSite)
    json.dumps(dict(parts.environment.options))  # As they are sent to a server.
    with pytest.raises(SettingsError, match=r"  options\.check: there is no module 'nomod'"):
        resolve_source(
            SourceSettings(environment="browser", options={**choices, "check": "nomod:cart"}),
            base=own,
        )


def test_a_check_in_python_is_a_plain_function() -> None:
    checks = "tests.environments.browser.own_checks"
    find_check(f"{checks}:cart_has_wanted")
    with pytest.raises(ConfigError, match="must name a plain function"):
        find_check(f"{checks}:cart_later")


async def test_a_check_that_is_no_javascript_is_a_mistake_in_its_row() -> None:
    with pytest.raises(ConfigError, match=r"'a b' of http://a.test/ is no JavaScript: SyntaxError"):
        await own_site(None).begin(FakePage())
    assert await own_site(lambda _: 1.0).begin(FakePage()) == ""
