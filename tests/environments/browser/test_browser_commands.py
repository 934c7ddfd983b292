"""The browser on the command line: played, validated, in a window, on a site of one's own."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.terminal import WAIT_SECONDS, agentfly
from tests.environments.browser.browser_site import LocalSite
from tests.patience import wait_until
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.environments.browser.chromium.window import require_window
from agentfly.environments.chromium_path import DISPLAYS
from agentfly.errors import ConfigError

pytestmark = pytest.mark.browser

CART = """<title>Cart</title><button onclick="add('mug')">Add mug</button>
<button onclick="add('pen')">Add pen</button><ul id="cart"></ul><script>
function add(thing) { cart.innerHTML += `<li class="${thing}">${thing} in the cart</li>` }
</script>"""


def rows_file(folder: Path, site: LocalSite, **more: object) -> Path:
    """Write one task on a page of a user's own."""
    site.pages["/cart"] = CART
    row = {"start": f"{site.address}/cart", "instruction": "Put a mug into the cart.", **more}
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row))
    return file


def test_a_person_plays_a_page_in_a_terminal() -> None:
    with agentfly("envs", "play", "browser", "tasks=click-test-2") as (terminal, process):
        shown = terminal.wait_for(r"Click button (?:ONE|TWO)\.(?s:.*)> ")
        wanted = "ONE" if "button ONE." in shown else "TWO"
        number = shown.partition(f'] button "{wanted}"')[0].rpartition("[")[2]
        terminal.type("click 99\n")
        terminal.wait_for(r"There is no element 99(?s:.*)> ")
        terminal.type(f"click {number}\n")
        terminal.wait_for(r"Reward: 1\b")
        assert process.wait(timeout=WAIT_SECONDS) == 0


def test_pages_of_your_own_are_scored_in_javascript(tmp_path: Path, site: LocalSite) -> None:
    rows = rows_file(tmp_path, site, check="document.querySelectorAll('.mug').length > 0")
    with agentfly("envs", "play", "browser", "site=own", f"rows={rows}") as (terminal, process):
        terminal.wait_for(r'Put a mug(?s:.*)\[1\] button "Add mug"(?s:.*)> ')
        terminal.type("click 2\n")
        terminal.wait_for(r"pen in the cart(?s:.*)> ")
        terminal.type("click 1\n")
        terminal.wait_for(r"Reward: 1\b")
        assert process.wait(timeout=WAIT_SECONDS) == 0


def test_pages_of_your_own_are_scored_in_python(tmp_path: Path, site: LocalSite) -> None:
    rows = rows_file(tmp_path, site, wanted=["mug", "pen"])
    check = "check=tests.environments.browser.own_checks:cart_has_wanted"
    options = ("site=own", f"rows={rows}", check)
    with agentfly("envs", "play", "browser", *options) as (terminal, process):
        terminal.wait_for(r"Put a mug(?s:.*)> ")
        terminal.type("click 1\n")
        terminal.wait_for(r"mug in the cart(?s:.*)> ")
        terminal.type("/say half of it\n")
        terminal.wait_for(r"Reward: 0\.5\b")
        assert process.wait(timeout=WAIT_SECONDS) == 0
    with agentfly("envs", "play", "browser", *options) as (terminal, process):
        for number in (1, 2):
            terminal.wait_for(r"> ")
            terminal.type(f"click {number}\n")
        terminal.wait_for(r"Reward: 1\b")
        assert process.wait(timeout=WAIT_SECONDS) == 0


def test_validate_lets_the_expert_play() -> None:
    tasks = 'tasks=["click-button", "enter-text"]'
    run = CliRunner().invoke(app, ["validate", "browser", tasks, "episodes=2", "eval_episodes=1"])
    assert run.exit_code == 0, run.output
    assert "6 of 6 tasks get full marks" in run.output


def test_a_window_without_a_display_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    run = CliRunner().invoke(app, ["envs", "play", "browser", "--headed"])
    assert run.exit_code == 2
    assert "the browser's window needs a display" in run.output
    assert "leave out --headed" in run.output


@contextmanager
def virtual_display(folder: Path) -> Iterator[tuple[str, Path]]:
    """Run an X server without a screen; yield its name and the file that has its pixels."""
    ours, theirs = os.pipe()
    command = ["Xvfb", "-displayfd", str(theirs), "-screen", "0", "1100x900x24"]
    server = subprocess.Popen(
        [*command, "-fbdir", str(folder)], pass_fds=[theirs], stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    try:
        with os.fdopen(ours) as named:
            yield f":{named.readline().strip()}", folder / "Xvfb_screen0"
    finally:
        server.terminate()
        server.wait()


YELLOW = bytes((0, 255, 255))
"""MiniWoB's color behind the instruction, as a screen holds it: blue, green, red."""


@pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb: apt-get install xvfb")
def test_headed_shows_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with virtual_display(tmp_path) as (display, pixels):
        monkeypatch.setenv("DISPLAY", display)
        try:
            require_window()
        except ConfigError as error:
            pytest.skip(str(error))
        chosen = ("envs", "play", "browser", "tasks=click-test", "--headed")
        with agentfly(*chosen) as (terminal, process):
            terminal.wait_for(r"Click Me!(?s:.*)> ")
            wait_until(lambda: pixels.read_bytes().count(YELLOW) > 2000)
            terminal.type("click 1\n")
            terminal.wait_for(r"Reward: 1\b")
            assert process.wait(timeout=WAIT_SECONDS) == 0
