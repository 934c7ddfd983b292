"""Metrics reach the file and the trackers; a tracker that fails is not the run's end.

Weights & Biases, MLflow and Trackio are not among the development packages: modules that stand in
for them record what is asked of them, in the words of their documentation.
"""

import json
import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.trackers import MetricsFile, Trackers, open_trackers, read_metrics
from agentfly.observe.trackers.tracked_run import IDENTITIES, TrackedRun

NAN, INF = float("nan"), float("inf")


def opened(folder: Path, *names: str, resume_after: int | None = None) -> Trackers:
    return open_trackers(
        folder,
        names=names,
        project="demo",
        run="first",
        settings={"name": "first", "train": {"lr": 1e-5}},
        resume_after=resume_after,
    )


def logged(path: Path) -> list[tuple[int, Mapping[str, float]]]:
    return [(record.step, record.metrics) for record in read_metrics(path)]


def test_the_file_is_always_there(tmp_path: Path) -> None:
    trackers = opened(tmp_path)
    trackers.log({"reward/mean": 0.25, "bad": NAN, "worse": -INF, "whole": 3}, 1)
    trackers.close()
    trackers.close()
    assert logged(tmp_path / "metrics.jsonl") == [(1, {"reward/mean": 0.25, "whole": 3.0})]
    line = json.loads((tmp_path / "metrics.jsonl").read_text())
    assert (line["v"], line["kind"]) == (2, "metrics")


def test_lines_of_version_1_stay_readable(tmp_path: Path) -> None:
    old = '{"v":1,"kind":"metrics","step":1,"time":12.5,"metrics":{"a":1.0}}\n'
    (tmp_path / "metrics.jsonl").write_text(old)
    trackers = opened(tmp_path, resume_after=1)
    trackers.log({"a": 2.0}, 2)
    trackers.close()
    assert logged(tmp_path / "metrics.jsonl") == [(1, {"a": 1.0}), (2, {"a": 2.0})]


def test_a_resumed_run_goes_on_without_damaged_lines_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "metrics.jsonl"
    trackers = opened(tmp_path)
    for step in range(1, 6):
        trackers.log({"a": 0.5}, step)
    trackers.close()
    damaged = path.read_text().replace('"step":2', '"step":6').replace('"step":4', '"step":[4]')
    path.write_text(damaged)
    opened(tmp_path, resume_after=5).close()
    assert [step for step, _ in logged(path)] == [1, 3, 5]
    assert (tmp_path / "metrics.jsonl.damaged").read_text() == damaged
    assert "2 lines of" in caplog.text
    assert "metrics.jsonl:2 is damaged" in caplog.text
    assert "no line of 2 of the 5 steps before this one, the first of them step 2" in caplog.text


@pytest.mark.parametrize("content", [None, "", "{}\n", '{"v":1,"kind":"metrics","step":"x"}\n'])
def test_lost_metrics_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    path = tmp_path / "metrics.jsonl"
    if content is not None:
        path.write_text(content)
    trackers = opened(tmp_path, resume_after=2)
    assert f"{path} has no line of 2 of the 2 steps" in caplog.text
    trackers.log({"a": 1.0}, 3)
    trackers.close()
    assert logged(path) == [(3, {"a": 1.0})]


def test_a_record_with_wrong_types_is_named(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"v":1,"kind":"metrics","step":1,"time":0,"metrics":{"a":"high"}}\n')
    with pytest.raises(FormatError, match=r"metrics\.jsonl:1: metrics"):
        read_metrics(path)


@pytest.mark.parametrize("content", ["{", "[]", '{"mlflow": 3}', "\udcff"])
def test_damaged_identities_are_named(tmp_path: Path, content: str) -> None:
    (tmp_path / IDENTITIES).write_text(content, errors="surrogateescape")
    run = TrackedRun(folder=tmp_path, name="a", project="b", settings={}, resume_after=1)
    with pytest.raises(FormatError, match=r"trackers\.json is damaged.*delete it"):
        run.identity("mlflow", lambda: "77aa")


def test_a_line_is_there_as_soon_as_it_is_logged(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.jsonl", now=lambda: 12.5)
    file.log({"a": 1.0}, 1)
    [record] = read_metrics(tmp_path / "metrics.jsonl")
    assert (record.step, record.time, record.metrics) == (1, 12.5, {"a": 1.0})
    file.close()


def test_a_resumed_run_drops_later_steps(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path)
    for step in (1, 2, 2, 3, 4):
        file.log({"a": step / 10}, step)
    file.close()
    with path.open("a") as torn:
        torn.write('{"v":1,"kind":"metr')
    resumed = MetricsFile(path, resume_after=2)
    resumed.log({"a": 0.9}, 3)
    resumed.close()
    assert logged(path) == [(1, {"a": 0.1}), (2, {"a": 0.2}), (2, {"a": 0.2}), (3, {"a": 0.9})]


def test_a_run_resumed_before_anything_was_logged_begins_its_file(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "metrics.jsonl", resume_after=0).close()
    assert logged(tmp_path / "metrics.jsonl") == []


def test_tensorboard_shows_what_was_logged(tmp_path: Path) -> None:
    trackers = opened(tmp_path, "tensorboard")
    for step in (1, 2, 3):
        trackers.log({"reward/mean": step / 4}, step)
    assert scalars(tmp_path, "reward/mean") == [(1, 0.25), (2, 0.5), (3, 0.75)]  # before closing
    trackers.close()
    resumed = opened(tmp_path, "tensorboard", resume_after=1)
    resumed.log({"reward/mean": 8.0}, 2)
    resumed.close()
    assert scalars(tmp_path, "reward/mean") == [(1, 0.25), (2, 8.0)]


def scalars(folder: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    seen = EventAccumulator(str(folder / "tensorboard"))
    seen.Reload()
    return [(event.step, event.value) for event in seen.Scalars(tag)]


class Failing:
    """A tracker whose server is gone."""

    def __init__(self) -> None:
        self.calls = 0

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self.calls += 1
        raise ConnectionError("no route")

    def close(self) -> None:
        raise ConnectionError("still none")


def test_a_tracker_that_fails_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing = Failing()
    trackers = Trackers(MetricsFile(tmp_path / "metrics.jsonl"), {"cloud": failing})
    with caplog.at_level(logging.WARNING):
        for step in (1, 2):
            trackers.log({"a": 1.0}, step)
        trackers.close()
    assert failing.calls == 2
    [warning] = caplog.messages
    assert "logging the tracker 'cloud' raised ConnectionError: no route" in warning
    assert len(read_metrics(tmp_path / "metrics.jsonl")) == 2


def test_the_file_must_succeed(tmp_path: Path) -> None:
    trackers = opened(tmp_path)
    trackers.close()
    with pytest.raises(ValueError, match="closed file"):
        trackers.log({"a": 1.0}, 1)


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown tracker 'wandd'\. Did you mean 'wandb'"):
        opened(tmp_path, "wandd")


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio", "tensorboard"])
def test_a_tracker_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for module in [m for m in sys.modules if m.split(".")[0] == name]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    extra = "train" if name == "tensorboard" else name
    with pytest.raises(ConfigError, match=rf"pip install 'agentfly\[{extra}\]'.*track\.trackers"):
        opened(tmp_path, name)
    opened(tmp_path).close()  # nothing is left open


class Recorder:
    """Remembers every call, whatever its name."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments, named))
            return self

        return call


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    module = ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    run = Recorder()

    def init(**named: Any) -> Recorder:
        asked.append(named)
        return run

    stand_in(monkeypatch, "wandb", init=init)
    for resume_after in (None, 1):
        trackers = opened(tmp_path, "wandb", resume_after=resume_after)
        trackers.log({"a": 1.0}, 3)
        trackers.close()
    first, second = asked
    assert first == second  # the same id, above all
    assert (first["project"], first["name"], first["resume"]) == ("demo", "first", "allow")
    assert first["config"] == {"name": "first", "train": {"lr": 1e-5}}
    assert run.calls[1:3] == [("log", ({"a": 1.0, "step": 3},), {}), ("finish", (), {})]


def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeMlflowClient()
    entities = SimpleNamespace(Metric=lambda *given: given, Param=lambda *given: given)
    stand_in(monkeypatch, "mlflow", MlflowClient=lambda: client)
    stand_in(monkeypatch, "mlflow.entities", **vars(entities))
    for resume_after in (None, 1):
        trackers = opened(tmp_path, "mlflow", resume_after=resume_after)
        trackers.log({"eval/pass@4": 1.0}, 3)
        trackers.close()
    assert client.made == ["first"]
    assert client.params == [("name", "first"), ("train.lr", "1e-05")]
    assert [(name, value, step) for name, value, _, step in client.metrics] == [
        ("eval/pass_4", 1.0, 3)
    ] * 2
    assert client.states == ["RUNNING", "ended", "RUNNING", "ended"]


class FakeMlflowClient:
    def __init__(self) -> None:
        self.made: list[str] = []
        self.params: list[Any] = []
        self.metrics: list[Any] = []
        self.states: list[str] = []

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str) -> str:
        assert name == "demo"
        return "7"

    def create_run(self, experiment_id: str, *, run_name: str) -> Any:
        assert experiment_id == "7"
        self.made.append(run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id="r1"))

    def log_batch(self, run_id: str, *, metrics: Any = (), params: Any = ()) -> None:
        assert run_id == "r1"
        self.metrics += metrics
        self.params += params

    def update_run(self, run_id: str, *, status: str) -> None:
        self.states.append(status)

    def set_terminated(self, run_id: str) -> None:
        self.states.append("ended")


def test_trackio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    run = Recorder()

    def init(**named: Any) -> Recorder:
        asked.append(named)
        return run

    stand_in(monkeypatch, "trackio", init=init)
    for resume_after in (None, 1):
        trackers = opened(tmp_path, "trackio", resume_after=resume_after)
        trackers.log({"a": 1.0}, 3)
        trackers.close()
    assert [named["resume"] for named in asked] == ["never", "allow"]
    assert run.calls[:2] == [("log", ({"a": 1.0},), {"step": 3}), ("finish", (), {})]


def test_a_tracker_that_can_not_be_opened_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def init(**named: Any) -> None:
        raise PermissionError("no api key")

    stand_in(monkeypatch, "wandb", init=init)
    with pytest.raises(ConfigError, match=r"PermissionError: no api key\. Run `wandb login`"):
        opened(tmp_path, "wandb")


def test_if_one_can_not_be_opened_the_others_are_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Recorder()
    stand_in(monkeypatch, "trackio", init=lambda **named: run)
    with pytest.raises(ConfigError, match="unknown tracker"):
        opened(tmp_path, "trackio", "nowhere")
    assert run.calls == [("finish", (), {})]
