"""Whole runs over three nodes, of which one dies half-way."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.abacus import source
from tests.cluster.conftest import Nodes

from agentfly import Trainer
from agentfly.config import RunSettings
from agentfly.observe import RunProgress, read_metrics
from agentfly.observe.findings import read_findings
from agentfly.resources import ask
from agentfly.runtime.process_registry import Identity

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class KillingProgress(RunProgress):
    """Kills a node with an engine on it when the first chain of a step has ended."""

    def __init__(self, nodes: Nodes, run: Path, at_step: int) -> None:
        super().__init__()
        self._cluster_nodes = nodes
        self._run_folder = run
        self._at_step = at_step
        self._current = 0
        self.killed = ""
        self.workers: list[Identity] = []

    def step_started(self, step: int, chains: int) -> None:
        self._current = step
        super().step_started(step, chains)

    def chains_done(self, *args: Any) -> None:
        super().chains_done(*args)
        if self._current == self._at_step and not self.killed:
            self._kill()

    def _kill(self) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        report = json.loads((self._run_folder / "environments.json").read_text())
        workers = report["snapshot"]["cluster"]["workers"]
        lives = [Identity.of(worker["pid"]) for worker in workers if worker["pid"]]
        self.workers = [life for life in lives if life is not None]
        others = {node.node_id[:6]: node.node_id for node in self._cluster_nodes.others}
        engines = [w["node"].rpartition("/")[2] for w in workers if w["name"][:6] == "engine"]
        pools = [w["node"].rpartition("/")[2] for w in workers if w["name"][:4] == "pool"]
        assert len(set(engines)) == 2, "replicas are spread"
        assert len(set(pools)) == 3, "environments are spread"
        self.killed = next(others[name] for name in engines if name in others)
        self._cluster_nodes.kill(self.killed)


def settings(nodes: Nodes, folder: Path, model: str, **rollout: int) -> RunSettings:
    return RunSettings.model_validate(
        {
            "name": "run",
            "folder": folder,
            "model": {"name": model, "precision": "float32"},
            "engine": {"replicas": 2},
            "rollout": {"retries": 3, "max_turns": 3, **rollout},
            "train": {"steps": 4, "lr": 1e-5},
            # Made before the first chain: an untrained model may call no tool at all.
            "environments": {"min_warm": 6},
            "eval": {"at_start": False, "at_end": False},
            "cluster": {"ray": nodes.address},
        }
    )


@pytest.mark.parametrize(
    ("model", "rollout"),
    [
        ("tiny", {"tasks_per_step": 4, "num_chains": 4, "max_tokens": 48}),
        ("smollm2-135m-instruct", {"tasks_per_step": 2, "num_chains": 4, "max_tokens": 24}),
    ],
)
def test_a_run_survives_the_death_of_a_node(
    nodes: Nodes, tmp_path: Path, model: str, rollout: dict[str, int]
) -> None:
    run = tmp_path / "run"
    progress = KillingProgress(nodes, run, at_step=3)
    chosen = settings(nodes, tmp_path, model, **rollout)
    result = Trainer(source(), chosen, progress=progress).run()
    assert result.steps == 4
    assert progress.killed
    last = list(read_metrics(run / "metrics.jsonl"))[-1].metrics
    assert last["cluster/lost_nodes"] == 1
    assert last["cluster/nodes"] == 2
    assert last["cluster/lost_workers"] >= 2, "a pool and an engine"
    assert "was lost" in (run / "log.txt").read_text()
    assert list((run / "workers").iterdir())
    text = ask(run).text
    assert "2 of 3 nodes alive" in text
    assert "was lost" in text
    assert not [life for life in progress.workers if life.alive], "a worker was left behind"
    nodes.add()


class LearnerKillingProgress(RunProgress):
    """Kills the node of a learner process when the first chain of a step has ended."""

    def __init__(self, nodes: Nodes, run: Path) -> None:
        super().__init__()
        self._cluster_nodes = nodes
        self._run_folder = run
        self._current = 0
        self.killed = ""

    def step_started(self, step: int, chains: int) -> None:
        self._current = step
        super().step_started(step, chains)

    def chains_done(self, *args: Any) -> None:
        super().chains_done(*args)
        if self._current == 3 and not self.killed:
            os.kill(os.getpid(), signal.SIGUSR1)
            report = json.loads((self._run_folder / "environments.json").read_text())
            workers = report["snapshot"]["cluster"]["workers"]
            places = [w["node"].rpartition("/")[2] for w in workers if w["name"][:7] == "learner"]
            others = {node.node_id[:6]: node.node_id for node in self._cluster_nodes.others}
            self.killed = next(others[name] for name in places if name in others)
            self._cluster_nodes.kill(self.killed)


def test_a_learner_over_three_nodes_goes_on_after_one_of_them_died(
    nodes: Nodes, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    chosen = settings(nodes, tmp_path, "tiny", tasks_per_step=2, num_chains=4, max_tokens=48)
    # Two learner processes fill a node, so that three are on two nodes.
    tables = {
        "learner": {"processes": 3},
        "engine": {"replicas": 1},
        "environments": {"min_warm": 0},
        "checkpoint": {"every": 1},
        "cluster": {"ray": nodes.address, "learner_cpus": 0.9, "engine_cpus": 0.5},
    }
    chosen = RunSettings.model_validate({**chosen.model_dump(exclude=set(tables)), **tables})
    progress = LearnerKillingProgress(nodes, run)
    result = Trainer(source(), chosen, progress=progress).run()
    assert result.steps == 4
    assert progress.killed
    assert [record.step for record in read_metrics(run / "metrics.jsonl")] == [1, 2, 3, 4]
    (finding,) = [f for f in read_findings(run / "findings.json") if f.kind == "learner_lost"]
    assert "went on after step 2" in finding.sentence
    assert "worker learner-" in finding.sentence
    assert (run / "workers").is_dir()
    nodes.add()
