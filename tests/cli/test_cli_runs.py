"""`agentfly runs`: what is listed, compared and removed."""

from pathlib import Path

import pytest
from tests.observe.finished_groups import scored
from tests.observe.recorded_runs import CONFIG, record_run
from typer.testing import CliRunner, Result

from agentfly.cli.main import app
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_list import RunEntry, describe_run, differences, list_runs
from agentfly.training import RunFolder

HELD_OUT = {0: [scored("a", 0.0)], 2: [scored("a", 1.0)], 4: [scored("a", 0.5)]}


def runs(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["runs", *arguments], input=answer)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def entry(path: Path) -> RunEntry:
    return describe_run(RecordedRun(path))


def test_how_runs_ended(folder: Path) -> None:
    target = CONFIG + "train.target_reward = 0.5\ntrain.target_window = 2\n"
    made = {
        "finished": record_run(folder / "whole"),
        "stopped": record_run(folder / "short", rewards=(0.25, 0.5)),
        "reached its target": record_run(folder / "good", rewards=(0.4, 0.6), config=target),
    }
    assert {state: entry(path).state for state, path in made.items()} == {s: s for s in made}
    below = record_run(folder / "below", rewards=(0.4, 0.5), config=target)
    assert entry(below).state == "stopped"
    (below / "metrics.jsonl").write_text('{"v":2,"kind":"metrics"}\n')
    assert entry(below).state.startswith("damaged: ")
    assert {each.run.name for each in list_runs(folder)} == {"whole", "short", "good", "below"}
    assert "whole" in runs("list").output
    assert "There are no runs" in runs("list", str(folder / "whole")).output


def test_the_best_evaluation_and_the_size(folder: Path) -> None:
    found = entry(record_run(folder / "demo", evaluations=HELD_OUT))
    assert found.best is not None
    assert (found.best.step, found.reward, found.progress) == (2, 1.0, "4/4")
    files = [path for path in (folder / "demo").rglob("*") if path.is_file()]
    assert found.size == sum(path.stat().st_size for path in files)
    shown = runs("show", "demo").output
    assert "1.00 [" in shown
    assert "after step 2" in shown


def test_a_run_that_is_trained_is_running_and_stays(folder: Path) -> None:
    path = record_run(folder / "demo")
    with RunFolder.open(path):
        assert entry(path).state == "running"
        refused = runs("rm", "demo", "--yes")
        assert (refused.exit_code, "is training in" in refused.output) == (2, True)
    assert entry(path).state == "finished"
    assert path.exists()


def test_runs_are_removed_after_asking(folder: Path) -> None:
    path = record_run(folder / "demo")
    assert runs("rm", "demo", answer="n\n").exit_code == 0
    assert path.exists()
    link = folder / "link"
    link.symlink_to(path)
    assert runs("rm", "link", "--yes").exit_code == 2
    assert runs("rm", "demo", answer="y\n").exit_code == 0
    assert not path.exists()
    assert runs("rm", "demo", "--yes").exit_code == 2


def test_a_run_named_twice_is_removed_once(folder: Path) -> None:
    record_run(folder / "demo")
    done = runs("rm", "demo", str(folder / "demo"), "--yes")
    assert (done.exit_code, done.output.count("deleted")) == (0, 1)


@pytest.mark.parametrize("mark", ["{}", '{"kind": "server"}', "[]", "no JSON"])
def test_a_folder_with_a_foreign_run_json_stays(folder: Path, mark: str) -> None:
    folder.mkdir()
    (folder / "run.json").write_text(mark)
    refused = runs("rm", str(folder), "--yes")
    assert (refused.exit_code, "is not one that AgentFly wrote" in refused.output) == (2, True)
    assert folder.exists()


def test_the_working_directory_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record_run(folder / "demo")
    (path / "notes").mkdir()
    monkeypatch.chdir(path / "notes")
    refused = runs("rm", "..", "--yes")
    assert (refused.exit_code, "leave it first" in refused.output) == (2, True)
    assert (path / "run.json").exists()


def test_settings_that_differ(folder: Path) -> None:
    nested = '[train]\nsteps = 4\n[[source]]\nkind = "tags"\ntools = ["a", "b"]\n'
    one = record_run(folder / "one", config=nested)
    other = record_run(folder / "other", config=nested.replace("tags", "tools") + "weight = 2\n")
    found = list(differences(RecordedRun(one), RecordedRun(other)))
    assert found == [("source.0.kind", "tags", "tools"), ("source.0.weight", "-", "2")]
    shown = runs("compare", "one", "other").output
    assert "source.0.kind" in shown
    assert "train.steps" not in shown
