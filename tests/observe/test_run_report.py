"""The report of a run: numbers, files, chains side by side, and what is missing."""

import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import record_run, write_chains

from agentfly.errors import ConfigError
from agentfly.observe import Report, find_run, read_report, show_report, write_report
from agentfly.types import Group, StopReason, ToolStatus

EVIL = "</pre><script>alert(1)</script>\x1b[2J\u202e"


def before() -> list[Group]:
    wrong = chain(0.0, turn(ToolStatus.UNKNOWN_TOOL, text=EVIL), stop=StopReason.TURN_LIMIT)
    return [group("6*7", [wrong, chain(0.5, turn())]), scored("only before", 0.0)]


def after() -> list[Group]:
    right = chain(
        1.0,
        turn(ToolStatus.OK, text=""),
        turn(index=1, text="It is 42."),
        parts={"exact": 0.75},
    )
    return [scored("only after", 1.0), group("6*7", [right, chain(0.5, turn())])]


def last_step() -> list[Group]:
    return [
        group("1*1", [chain(1.0, turn(text="well done")), chain(0.9, turn())]),
        scored("2*2", 0.5),
        group("3*3", [chain(0.0, turn(text="badly done")), chain(0.1, turn())]),
        scored("4*4", 0.75),
        scored("5*5", None),
    ]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record_run(
        tmp_path / "demo", evaluations={0: before(), 4: after()}, steps={4: last_step()}
    )


@dataclass(frozen=True)
class Written:
    run: Path
    report: Report

    @property
    def page(self) -> str:
        return page_of(self.run)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The run of `run` with its report, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("runs") / "demo"
    record_run(folder, evaluations={0: before(), 4: after()}, steps={4: last_step()})
    command = "agentfly train demo.toml"
    return Written(folder, write_report(folder, title="Quick & start", command=command))


def page_of(run: Path) -> str:
    return (run / "report.html").read_text()


def test_the_numbers_are_in_the_file(written: Written) -> None:
    run, report = written.run, written.report
    summary = json.loads((run / "report.json").read_text())
    assert summary["reward_before"] == report.reward_before == 0.125
    assert summary["reward_after"] == report.reward_after == 0.875
    assert (summary["steps"], summary["command"]) == (4, "agentfly train demo.toml")
    assert summary["after"]["tools/unknown_share"] == 0.0
    assert summary["before"]["tools/unknown_share"] == 1.0
    files = {"report.html", "report.json", "reward.html", "reward.png"}
    assert files <= {path.name for path in run.iterdir()}


def test_the_table(run: Path) -> None:
    rows = {row.name: (row.before, row.after) for row in read_report(find_run(run)).rows}
    assert rows["tool calls per chain"] == ("0.33", "0.33")
    assert rows["invalid calls"] == ("100%", "0%")
    assert rows["solved"][1].startswith("75% [")


def test_chains_of_the_same_task_stand_side_by_side(written: Written) -> None:
    [example] = written.report.examples
    assert (example.before.task.id, example.after.task.id) == ("6*7", "6*7")
    assert (example.before.reward, example.after.reward) == (0.0, 1.0)
    page = written.page
    assert "calculator({&#34;expression&#34;: &#34;6*7&#34;})" in page
    assert "It is 42." in page
    assert "exact 0.75" in page
    assert "<h1>Quick &amp; start</h1>" in page


def test_the_best_and_worst_chains_of_the_last_step_are_shown_one_of_each_task(
    written: Written,
) -> None:
    report = written.report
    assert [member.reward for member in report.best] == [1.0, 0.75, 0.5]
    assert [member.reward for member in report.worst] == [0.0]
    assert [member.task.id for member in report.failed] == ["5*5"]
    page = written.page
    well, badly = page.index("well done"), page.index("badly done")
    assert page.index("went well") < well < page.index("went badly") < badly
    assert "EnvError: gone" in page


def test_what_a_model_says_is_text_on_the_page(written: Written) -> None:
    page = written.page
    assert "alert(1)" in page
    assert "<script>alert" not in page
    assert not re.search("[\x1b\u202e]", page)


def test_the_page_fetches_nothing(written: Written) -> None:
    page = written.page
    assert "Content-Security-Policy" in page
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"\b(src|href)=\"[^#]", page)


def test_a_long_message_is_cut(tmp_path: Path) -> None:
    long = [group("6*7", [chain(1.0, turn(text="x" * 5000))])]
    run = record_run(tmp_path / "long", steps={4: long})
    write_report(run)
    assert "x" * 4000 + "… (1,000 more characters)" in page_of(run)


def test_the_prompt_is_folded_away(written: Written) -> None:
    page = written.page
    assert page.index("<details>") < page.index("Use the tool.") < page.index("</details>")


def test_settings_and_times(written: Written) -> None:
    report = written.report
    assert {stage.name: stage.seconds for stage in report.stages} == {
        "sampling": 8.0,
        "training": 4.0,
        "evaluating": 3.0,
    }
    assert [(wait.name, wait.share) for wait in report.waits] == [
        ("generating", 0.75),
        ("tools", 0.25),
    ]
    page = written.page
    assert "train.steps = 4" in page
    assert "A comment" not in page


def test_findings_and_warnings_of_the_run_are_on_the_page(run: Path) -> None:
    words = {"sentence": "No <b>call</b>.", "way_out": "Show one."}
    found = {"kind": "no_calls", "step": 2, "source": "default", **words}
    (run / "findings.json").write_text(json.dumps({"findings": [found]}))
    log = "2026-11-07 13:05:09 WARNING agentfly.training.health: chains are late\n" * 3
    log += "2026-11-07 13:05:09 WARNING agentfly.observe.findings: step 2: No <b>call</b>.\n"
    (run / "log.txt").write_text(log + "2026-11-07 13:05:09 WARNING torch: noise\n")
    report = write_report(run)
    assert [str(finding) for finding in report.findings] == ["No <b>call</b>. Show one."]
    assert report.warnings == ("chains are late",)
    assert "No &lt;b&gt;call&lt;/b&gt;.</b> Show one." in page_of(run)
    assert "chains are late" in page_of(run)


def test_a_run_without_evaluation_says_so(tmp_path: Path) -> None:
    run = record_run(tmp_path / "blind", steps={4: last_step()})
    report = write_report(run)
    assert (report.before, report.after, report.rows, report.verdict) == (None, None, [], None)
    assert "No held-out task was evaluated" in page_of(run)


def test_a_killed_run_says_how_far_it_came(tmp_path: Path) -> None:
    run = record_run(tmp_path / "killed", evaluations={0: before()}, rewards=(0.25, 0.5))
    unfinished = run / "trajectories" / "step_3.jsonl"
    write_chains(unfinished, last_step(), packed=False)
    with unfinished.open("ab") as file:
        file.write(b'{"v":1,"kind":"traj')
    report = write_report(run)
    assert report.progress == "2 of 4 steps"
    assert [member.reward for member in report.best] == [1.0, 0.75, 0.5]
    page = page_of(run)
    assert "The run took 2 of 4 steps" in page
    assert "one evaluation, after step 0" in page


def test_a_run_killed_before_its_first_step_has_a_report(tmp_path: Path) -> None:
    run = record_run(tmp_path / "young", rewards=())
    (run / "metrics.jsonl").unlink()
    write_report(run)
    assert "No step was finished" in page_of(run)
    assert not (run / "reward.png").exists()


def test_an_evaluation_that_was_not_logged_is_measured(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:-1]))
    assert read_report(find_run(run)).reward_after == 0.875


def test_damaged_files_are_named_and_the_rest_is_shown(run: Path) -> None:
    file = run / "trajectories" / "eval_0.jsonl.gz"
    file.write_bytes(file.read_bytes()[:-20])
    report = write_report(run)
    assert report.reward_after == 0.875
    assert report.before is None
    assert "eval_0.jsonl.gz is damaged" in page_of(run)
    with (run / "metrics.jsonl").open("r+b") as metrics:
        metrics.write(b'{"v":2,"kind":"metricz"')
    assert "metrics.jsonl:1" in " ".join(write_report(run).notes)


def test_title_and_command_are_kept_when_it_is_made_again(tmp_path: Path) -> None:
    run = record_run(tmp_path / "demo", rewards=())
    write_report(run, title="Sums", command="agentfly train sums.toml")
    write_report(run)
    assert "<h1>Sums</h1>" in page_of(run)
    assert "agentfly train sums.toml" in page_of(run)


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        ([1.0] * 30, "rose from 0.00 to 1.00"),
        ([0.0] * 29 + [1.0], "may be chance"),
    ],
)
def test_the_verdict_depends_on_the_intervals(
    tmp_path: Path, now: list[float], sentence: str
) -> None:
    then = [scored(str(task), 0.0) for task in range(30)]
    later = [scored(str(task), reward) for task, reward in enumerate(now)]
    run = record_run(tmp_path / "demo", evaluations={0: then, 4: later})
    verdict = read_report(find_run(run)).verdict
    assert verdict is not None
    assert sentence in verdict


def shown(report: Report, width: int) -> str:
    file = io.StringIO()
    show_report(report, Console(file=file, width=width))
    return file.getvalue()


@pytest.mark.parametrize("width", [40, 120])
def test_on_the_terminal(written: Written, width: int) -> None:
    text = shown(written.report, width)
    assert "2 held-out tasks" in text
    assert "before: reward 0.00, turn_limit" in text
    assert '    call       calculator({"expression": "6*7"})' in text
    assert "    assistant  It is 42." in text
    assert "\x1b" not in text


def test_a_model_that_failed_everywhere_is_reported_too(tmp_path: Path) -> None:
    broken = [scored("a", None)]
    run = record_run(tmp_path / "demo", evaluations={0: broken, 4: broken})
    report = write_report(run)
    assert report.reward_after is None
    assert "EnvError: gone" in page_of(run)
    assert json.loads((run / "report.json").read_text())["reward_after"] is None


def test_a_run_is_found_by_name_and_a_wrong_one_is_answered_with_the_nearest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    record_run(tmp_path / "runs" / "demo")
    assert find_run("demo").name == "demo"
    with pytest.raises(ConfigError, match=r"no run 'dmeo'.*Did you mean 'demo'"):
        find_run("dmeo")


@pytest.mark.parametrize(
    ("target", "why"),
    [("0.9", "reached its target reward"), ("1.1", "was stopped, or is still running")],
)
def test_a_shorter_run_says_why(tmp_path: Path, target: str, why: str) -> None:
    run = record_run(tmp_path / "demo", config=f"train.steps = 9\ntrain.target_reward = {target}\n")
    assert f"The run took 4 of 9 steps: it {why}." in read_report(find_run(run)).notes
