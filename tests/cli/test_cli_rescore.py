"""`agentfly rescore` and `agentfly watch`: recorded runs read again."""

import sys
from pathlib import Path

import pytest
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import CONFIG, record_run
from typer.testing import CliRunner, Result

from agentfly.cli.main import app
from agentfly.observe import MetricsFile
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.run_folder import RunFolder
from agentfly.observe.run_watch import RunWatch
from agentfly.types import ToolStatus

SOURCE = '[[source]]\ntasks = "rows.jsonl"\nreward = "exact_match"\n'
PARTS = '''
from agentfly import group_reward, reward

@reward
def polite(final_response: str) -> float:
    """Is it polite?"""
    if final_response == "crash":
        raise ValueError("boom")
    return float("please" in final_response)

class Shop:
    def look(self) -> str:
        """Look."""
        return "shelf"

@reward
def broken() -> float:
    """Never right."""
    raise KeyError("no such field")

@reward(env=Shop)
def stock(env: Shop) -> float:
    """Is the shop full?"""
    return 1.0

@reward
def leased(shop: Shop) -> float:
    """Is the shop that its tools lease full?"""
    return 1.0

@group_reward
def rank(group) -> list[float]:
    """By place."""
    return [float(place) for place, _ in enumerate(group.members)]
'''


def agentfly(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "rescore_parts", raising=False)
    (tmp_path / "rescore_parts.py").write_text(PARTS)
    texts = ("yes please", "no", "crash")
    groups = [group("6*7", [chain(0.5, turn(ToolStatus.OK, text=text)) for text in texts])]
    evaluations = {0: [group("held", [chain(0.0, turn(text="please"))]), scored("gone", None)]}
    return record_run(
        tmp_path / "runs" / "demo",
        steps={1: groups},
        evaluations=evaluations,
        config=CONFIG + SOURCE,
    )


def rewards(run: RecordedRun, step: int, *, held_out: bool = False) -> list[float | None]:
    return [one.reward for one in run.chain_file(step, held_out=held_out).read()]


def test_every_chain_is_scored_again_into_a_folder_of_its_own() -> None:
    done = agentfly("rescore", "demo", "--reward", "rescore_parts:polite")
    assert done.exit_code == 0, done.output
    made = find_run("demo-polite")
    assert rewards(made, 1) == [1.0, 0.0, None]
    assert rewards(made, 0, held_out=True) == [1.0, None]
    assert rewards(find_run("demo"), 1) == [0.5, 0.5, 0.5], "the run is only read"
    assert made.settings["source"][0]["reward"] == "rescore_parts:polite"
    assert [record.metrics.get("eval/reward") for record in made.records] == [1.0, None]
    assert "1 chains could not be scored" in done.output
    assert "boom" in done.output
    ranked = agentfly("rescore", "demo", "--group-reward", "rescore_parts:rank")
    assert ranked.exit_code == 0, ranked.output
    assert rewards(find_run("demo-rank"), 1) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reward", "rescore_parts:stock"], "looks at the state of an environment"),
        (["--reward", "rescore_parts:leased"], "looks at the state of an environment"),
        ([], "name the new reward"),
        (["--reward", "exact_match", "--name", "demo"], "another --name"),
        (["--reward", "rescore_parts:broken"], "nothing is written: RewardError: reward 'broken'"),
    ],
)
def test_what_can_not_be_scored_is_refused(words: list[str], said: str) -> None:
    done = agentfly("rescore", "demo", *words)
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output
    assert not list(Path("runs").glob("demo-*/run.json"))


def test_a_run_is_watched_until_it_ends(run: Path) -> None:
    watched = RunWatch(find_run("demo"))
    assert len(list(watched.new_lines())) == 5
    with RunFolder.open(run) as folder:
        assert not watched.is_over
        assert "between two steps" in watched.status()
        folder.trajectories_file(5).write_text("{}\n{}\n")
        assert "step 5, 2 chains done" in watched.status()
        metrics = MetricsFile(folder.metrics_file)
        metrics.log({"reward/mean": 0.5}, 5)
        metrics.close()
        assert list(watched.new_lines()) == ["step 5/4  reward 0.50"]
        assert list(watched.new_lines()) == []
        assert "step 5, 2 chains done" in agentfly("watch", "demo", "--once").output
    done = agentfly("watch", "demo")
    assert (done.exit_code, "demo: finished, 5/4 steps" in done.output) == (0, True), done.output
