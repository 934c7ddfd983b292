"""The report of a run: numbers, files, chains side by side."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.observe.finished_groups import chain, group, scored, turn

from agentfly.observe import MetricsRecord, Report, show_report, write_report
from agentfly.types import Group, StopReason, ToolStatus

RECORDS = [
    MetricsRecord(step=step, time=0.0, metrics={"reward/mean": step / 4}) for step in range(5)
]
EVIL = "</pre><script>alert(1)</script>\x1b[2J"


def before() -> list[Group]:
    wrong = chain(0.0, turn(ToolStatus.UNKNOWN_TOOL, text=EVIL), stop=StopReason.TURN_LIMIT)
    return [group("6*7", [wrong, chain(0.5, turn())]), scored("only before", 0.0)]


def after() -> list[Group]:
    right = chain(1.0, turn(ToolStatus.OK, text=""), turn(index=1, text="It is 42."))
    return [scored("only after", 1.0), group("6*7", [right, chain(0.5, turn())])]


def written(folder: Path) -> Report:
    return write_report(
        folder,
        title="Quick & start",
        before=before(),
        after=after(),
        records=RECORDS,
        seconds=12.5,
        command="agentfly quickstart",
    )


def test_the_numbers_are_in_the_file(tmp_path: Path) -> None:
    report = written(tmp_path)
    summary = json.loads((tmp_path / "report.json").read_text())
    assert summary["reward_before"] == report.reward_before == 0.125
    assert summary["reward_after"] == report.reward_after == 0.875
    assert (summary["seconds"], summary["command"]) == (12.5, "agentfly quickstart")
    assert summary["after"]["tools/unknown_share"] == 0.0
    assert summary["before"]["tools/unknown_share"] == 1.0
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["report.html", "report.json", "reward.html", "reward.png"]


def test_the_table(tmp_path: Path) -> None:
    rows = {row.name: (row.before, row.after) for row in written(tmp_path).rows}
    assert rows["tool calls per chain"] == ("0.33", "0.33")
    assert rows["invalid calls"] == ("100%", "0%")
    assert rows["solved"][1].startswith("75% [")


def test_chains_of_the_same_task_stand_side_by_side(tmp_path: Path) -> None:
    [example] = written(tmp_path).examples
    assert example.question == "What is 6*7?"
    assert (example.before.reward, example.after.reward) == (0.0, 1.0)
    page = (tmp_path / "report.html").read_text()
    assert "calculator({&#34;expression&#34;: &#34;6*7&#34;})" in page
    assert "It is 42." in page
    assert "<h1>Quick &amp; start</h1>" in page


def test_what_a_model_says_is_text_on_the_page(tmp_path: Path) -> None:
    written(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert "http" not in page


def test_the_prompt_is_folded_away(tmp_path: Path) -> None:
    written(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.index("<details>") < page.index("Use the tool.") < page.index("</details>")


@pytest.mark.parametrize("width", [40, 120])
def test_on_the_terminal(tmp_path: Path, width: int) -> None:
    file = io.StringIO()
    show_report(written(tmp_path), Console(file=file, width=width))
    shown = file.getvalue()
    assert "2 held-out tasks" in shown
    assert "before: reward 0.00, turn_limit" in shown
    assert '    call       calculator({"expression": "6*7"})' in shown
    assert "    assistant  It is 42." in shown
    assert "\x1b" not in shown


def test_a_model_that_failed_everywhere_is_reported_too(tmp_path: Path) -> None:
    report = write_report(
        tmp_path,
        title="Broken",
        before=[scored("a", None)],
        after=[scored("a", None)],
        records=RECORDS,
        seconds=1.0,
    )
    assert report.reward_after is None
    assert "EnvError: gone" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["reward_after"] is None
