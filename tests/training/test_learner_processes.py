"""A run whose learner has several processes: the curve of one, resumed, and ended with a reason."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.learner_cases import make_model
from tests.training.small_trainer import one_source, settings, train
from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy

from agentfly.agents.run_parts import resolve_run
from agentfly.config import RunSettings
from agentfly.errors import ConfigError, LearnerLostError, RunError
from agentfly.observe import read_metrics
from agentfly.observe.findings import read_findings
from agentfly.training import assembly, trainer
from agentfly.training.learner import sharding
from agentfly.training.learner.peers import LearnerRank, serve_store
from agentfly.training.learner.sharded_learner import Setup, ShardedLearner
from agentfly.training.learner_processes import open_learner

TABLES: dict[str, dict[str, Any]] = {
    "grpo": {"algorithm": {"name": "grpo", "kl": {"coefficient": 0.05}}},
    "ppo": {"algorithm": {"name": "ppo"}},
}


def chosen(folder: Path, name: str, processes: int, steps: int) -> RunSettings:
    return settings(
        folder,
        **TABLES[name],
        model={"name": "tiny-random", "precision": "float32"},
        train={"steps": steps, "lr": 1e-3, "critic_lr": 3e-3},
        learner={"processes": processes},
        eval={"every": 0, "at_start": False, "at_end": False},
        seed=4,
    )


def curve(folder: Path) -> list[dict[str, float]]:
    shown = ("train/loss", "train/grad_norm", "train/critic/loss", "reward/mean")
    records = read_metrics(folder / "small" / "metrics.jsonl")
    return [{n: r.metrics[n] for n in shown if n in r.metrics} for r in records]


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_run_on_two_processes_then_one_then_two_has_the_curve_of_one(
    name: str, tmp_path: Path
) -> None:
    train(one_source(), chosen=chosen(tmp_path / "one", name, processes=1, steps=3))
    results = [
        train(
            one_source(),
            chosen=chosen(tmp_path / "two", name, processes=processes, steps=steps),
            resume=steps > 1,
        )
        for processes, steps in ((2, 1), (1, 2), (2, 3))
    ]
    expected, got = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert len(got) == len(expected) == 3
    for ours, theirs in zip(got, expected, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)
    assert (results[-1].model / "model.safetensors").exists()


@pytest.mark.slow
def test_a_learner_of_one_process_that_offloads_has_the_same_curve(tmp_path: Path) -> None:
    plain = chosen(tmp_path / "plain", "grpo", processes=1, steps=2)
    offload = {"offload_optimizer": True, "offload_reference": True}
    learner = plain.learner.model_copy(update=offload)
    train(one_source(), chosen=plain)
    update = {"folder": tmp_path / "offloading", "learner": learner}
    train(one_source(), chosen=plain.model_copy(update=update))
    for ours, theirs in zip(*(curve(tmp_path / n) for n in ("offloading", "plain")), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-4, abs=1e-4)


def test_parts_that_are_offloaded_are_kept_out_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    policies: list[type[OffloadPolicy]] = []

    def note(*_: object, offload_policy: OffloadPolicy, **__: object) -> None:
        policies.append(type(offload_policy))

    monkeypatch.setattr(sharding, "fully_shard", note)
    model = make_model()
    for device, offload in (("cuda", True), ("cuda", False), ("cpu", True)):
        peers: Any = SimpleNamespace(mesh=SimpleNamespace(device_type=device))
        sharding.shard(model, model, peers, dtype=torch.float32, offload=offload)
    (first, *_), every = policies, len(policies) // 3
    assert policies == [first] * every + [OffloadPolicy] * 2 * every
    assert first is CPUOffloadPolicy


def children() -> list[int]:
    """Return the learner processes that this one started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == os.getpid() and b"learner_processes" in command:
            found.append(int(stat.parent.name))
    return found


def kill_once(monkeypatch: pytest.MonkeyPatch, *, learning: int, before: bool) -> None:
    """Kill the other processes right before or after some call of `learn`."""
    real, calls = ShardedLearner._call, []

    def deadly(self: ShardedLearner, method: str, *arguments: Any) -> Any:
        calls.append(method)
        now = method == "learn_from" and calls.count(method) == learning
        if now and before:
            kill_children()
        result = real(self, method, *arguments)
        if now and not before:
            kill_children()
        return result

    monkeypatch.setattr(ShardedLearner, "_call", deadly)


def kill_children() -> None:
    for pid in children():
        os.kill(pid, signal.SIGKILL)


def saving_each_step(folder: Path, **learner: int) -> RunSettings:
    now = chosen(folder, "grpo", processes=2, steps=3)
    return now.model_copy(
        update={
            "checkpoint": now.checkpoint.model_copy(update={"every": 1}),
            "learner": now.learner.model_copy(update=learner),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False])
def test_a_run_that_loses_a_learner_process_goes_on_from_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    kill_once(monkeypatch, learning=2, before=before)
    assert train(one_source(), chosen=saving_each_step(tmp_path)).steps == 3
    assert not children()
    run = tmp_path / "small"
    assert [record.step for record in read_metrics(run / "metrics.jsonl")] == [1, 2, 3]
    (finding,) = [f for f in read_findings(run / "findings.json") if f.kind == "learner_lost"]
    assert "1 of at most 3 times" in finding.sentence
    assert "went on after step 1: the learner lost one of its processes" in finding.sentence
    assert "learner process 1 ended with code -9" in finding.sentence
    assert finding.sentence in (run / "log.txt").read_text()


class OneGpu:
    """A cluster that keeps GPU 3 for this process."""

    host = "127.0.0.1"
    offers_gpus_here = True

    def __init__(self) -> None:
        self.kept = 0

    def process_groups(self, _: object) -> "OneGpu":
        return self

    @asynccontextmanager
    async def start(self, count: int, *_: object) -> AsyncIterator[Any]:
        self.kept = count
        yield SimpleNamespace(first_gpu=3, logs="", ended=lambda: None)
        self.kept = 0


async def test_a_learner_of_one_process_keeps_its_gpu_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", set_to.append)
    parts = resolve_run(chosen(tmp_path, "grpo", processes=1, steps=1), sources=[one_source()])
    cluster: Any = OneGpu()
    assert assembly._learner_hosts(parts.settings, cluster) is None, "it learns on processors"
    monkeypatch.setattr(assembly, "device_of", lambda _: torch.device("cuda"))
    hosts = assembly._learner_hosts(parts.settings, cluster)
    async with open_learner(parts, tmp_path, hosts=hosts):
        assert (cluster.kept, set_to) == (1, [3])
    assert cluster.kept == 0


def test_the_number_of_restarts_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed: list[bool] = []

    def always_lost(*_: object, resume: bool, **__: object) -> object:
        resumed.append(resume)
        raise LearnerLostError("the learner lost one of its processes: it was unplugged")

    monkeypatch.setattr(trainer, "open_run", always_lost)
    with pytest.raises(LearnerLostError, match=r"unplugged\. .*taken up 2 times.*--resume"):
        train(one_source(), chosen=saving_each_step(tmp_path, max_restarts=2))
    assert resumed == [False, True, True]


def test_a_process_that_can_t_start_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "not a number")
    with pytest.raises(RunError, match=r"learner process 1 ended with code .* before it joined"):
        train(one_source(), chosen=chosen(tmp_path, "grpo", processes=2, steps=1))


def test_an_algorithm_that_can_t_be_sent_is_refused(tmp_path: Path) -> None:
    from dataclasses import replace

    from agentfly.algorithms import make_algorithm

    algorithm = make_algorithm("grpo")
    own = replace(algorithm, loss=lambda x: algorithm.loss(x))
    with pytest.raises(ConfigError, match="can't be sent to other learner processes"):
        Setup.of(chosen(tmp_path, "grpo", processes=2, steps=1), own, named=False)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"rank": 2, "world_size": 2, "address": "a:1"}, "from 0 to world_size - 1 = 1, got 2"),
        ({"rank": 0, "world_size": 2, "address": "a"}, "must be host:port, got 'a'"),
    ],
)
def test_an_impossible_place_is_refused(place: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        LearnerRank(**place)


def test_the_store_listens_at_its_own_address_only() -> None:
    store = serve_store("127.0.0.1")
    port = f":{store.port:04X}"
    lines = [line.split() for name in ("tcp", "tcp6") for line in listed(name)]
    assert [fields[1] for fields in lines if fields[1].endswith(port) and fields[3] == "0A"] == [
        f"0100007F{port}"
    ]


def listed(name: str) -> list[str]:
    """Return the sockets of this machine, as the kernel lists them."""
    return Path("/proc/net", name).read_text().splitlines()[1:]
