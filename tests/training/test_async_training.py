"""Sampling ahead of training, with a real model."""

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.training.learner_cases import make_groups, make_model
from tests.training.small_trainer import one_source, settings, train

from agentfly.agents.run_parts import resolve_run
from agentfly.config import RunSettings, SettingsError
from agentfly.engines.local import LocalEngine
from agentfly.observe import RunProgress
from agentfly.runtime.clock import LoopClock
from agentfly.tasks import Ledger, Visit
from agentfly.training.assembly import open_run
from agentfly.training.async_sampler import AsyncSampler
from agentfly.training.rollout_stages import StepSampler
from agentfly.training.staleness import StalenessWindow
from agentfly.training.task_mix import read_sources
from agentfly.types import Completion, Group, Request, SamplingParams, Seed, SharedTensors, Task


def weights_of(folder: Path, step: int) -> str:
    file = folder / "small" / "checkpoints" / f"step_{step}" / "model.safetensors"
    return hashlib.sha256(file.read_bytes()).hexdigest()


async def run(chosen: RunSettings, *, ahead: bool) -> None:
    parts = resolve_run(chosen, sources=[one_source()])
    progress = RunProgress(quiet=True)
    async with open_run(
        parts, read_sources(parts.sources, parts.settings.eval), progress=progress, resume=False
    ) as x:
        if ahead:
            assert isinstance(x.sampler, StepSampler)
            window = StalenessWindow(
                max_staleness=0,
                groups_per_step=chosen.rollout.tasks_per_step,
                steps=chosen.train.steps,
            )
            x.sampler = AsyncSampler(x.sampler.chains, x.sampler.planner, window)
        await x.run()


def test_with_a_bound_of_0_the_asynchronous_sampler_gives_the_weights_of_the_synchronous_loop(
    tmp_path: Path,
) -> None:
    found = {}
    for ahead in (False, True):
        folder = tmp_path / str(ahead)
        chosen = settings(
            folder, deterministic=True, train={"steps": 3, "lr": 1e-3}, eval={"every": 0}
        )
        asyncio.run(run(chosen, ahead=ahead))
        found[ahead] = weights_of(folder, 3)
    assert found[True] == found[False]


def test_a_run_ahead_of_its_learner_keeps_the_bound_and_reports_it(tmp_path: Path) -> None:
    rollout = {"tasks_per_step": 2, "num_chains": 3, "max_staleness": 1}
    chosen = settings(tmp_path, rollout=rollout, train={"steps": 5, "lr": 1e-3})
    records = [record.metrics for record in train(one_source(), chosen=chosen).metrics]
    steps = [metrics for metrics in records if "staleness/max" in metrics]
    assert [metrics["chains/groups"] for metrics in steps] == [2.0] * 5
    assert steps[0]["staleness/max"] == 0.0
    assert max(metrics["staleness/max"] for metrics in steps) == 1.0
    assert all(metrics["staleness/mean"] <= 1.0 for metrics in steps)
    asked = {"queue/finished_groups", "time/waiting_for_groups", "time/waiting_for_learner"}
    assert asked <= steps[-1].keys()
    assert steps[-1]["train/mismatch/weight"] > 0


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({"algorithm": {"name": "reinforce"}}, "the plain policy gradient, which holds for chains"),
        ({"deterministic": True}, "must be 0 in a deterministic run"),
    ],
)
def test_what_can_not_be_right_with_older_chains_is_refused(
    tmp_path: Path, tables: dict[str, Any], reason: str
) -> None:
    chosen = settings(tmp_path, rollout={"max_staleness": 1}, **tables)
    with pytest.raises(SettingsError, match=r"rollout.max_staleness") as refused:
        resolve_run(chosen, sources=[one_source()])
    assert reason in str(refused.value)


async def sampled(engine: LocalEngine) -> Completion:
    request = Request(chain_id="a/0/0", group_id="a/0", turn=0, seed=Seed(1))
    deadline = asyncio.get_running_loop().time() + 60
    return await engine.sample(
        [1, 2, 3], SamplingParams(max_tokens=8), request=request, deadline=deadline
    )


async def test_an_engine_with_a_copy_samples_from_it_until_new_weights_are_published() -> None:
    model = make_model()
    engine = LocalEngine(model, copy=True)
    assert engine.samples_exactly
    assert not engine.shares_tensors
    before = await sampled(engine)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    assert await sampled(engine) == before
    await engine.publish(SharedTensors(), 1)
    after = await sampled(engine)
    assert after.versions == ((1, 8),)
    assert after.logprobs != before.logprobs
    await engine.close()


class _Planner:
    """The part of a planner that a sampler needs to take over what was finished."""

    def __init__(self) -> None:
        tasks = [Task(id=f"task{i}", messages=()) for i in range(5)]
        self.ledger = Ledger.open(None, tasks, seed=Seed(7))
        self.finished: list[str] = []

    def finish(self, group: Group) -> None:
        self.finished.append(group.id)

    def plan(self, visit: Visit) -> str:
        return visit.group_id


async def test_groups_that_were_not_finished_are_begun_before_new_ones() -> None:
    order = [visit.group_id for visit in _Planner().ledger.issue(4)]
    (any_group,) = make_groups(groups=1, chains=2)
    third = replace(
        any_group,
        id=order[2],
        members=tuple(replace(one, group_id=order[2]) for one in any_group.members),
    )
    planner: Any = _Planner()
    chains: Any = SimpleNamespace(clock=LoopClock())
    window = StalenessWindow(max_staleness=2, groups_per_step=2, steps=9)
    sampler = AsyncSampler(chains, planner, window, [third])
    plans: Any = sampler._plans()
    begun = [await anext(plans) for _ in range(3)]
    await plans.aclose()
    assert begun == [order[0], order[1], order[3]]
    assert planner.finished == list(sampler.finished) == [order[2]]
