"""The learner alone, on the recorded chains of a run: to debug it, without engine or environment.

    runs/sums/trajectories/step_1.jsonl.gz ─► groups ─► learner ─► metrics beside the recorded ones

It begins with the run's own model and takes the run's steps in their order. With the run's own
settings the metrics are those of the run; with others they show what those would have done to the
same chains (from the second step on the chains are those of other weights, as in off-policy data).
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from agentfly.agents.run_parts import RunParts
from agentfly.errors import ConfigError
from agentfly.observe import rollout_metrics
from agentfly.observe.recorded_run import RecordedRun
from agentfly.tasks.ledger import trained_groups
from agentfly.training.health import has_trainable
from agentfly.training.learner_processes import open_learner
from agentfly.training.run_state import determinism
from agentfly.types import Group, collect_groups


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStep:
    """Metrics of one step: of the replay, and as the run has logged them."""

    step: int
    metrics: Mapping[str, float]
    recorded: Mapping[str, float]


async def replay(parts: RunParts, run: RecordedRun) -> AsyncIterator[ReplayedStep]:
    """Yield the metrics of each recorded step, up to `train.steps`.

    Args:
        parts: Settings and algorithm; the run's own, or changed ones.
        run: The run with the chains.
    """
    finished = [file for file in run.chain_files if file.finished and not file.held_out]
    if not finished:
        raise ConfigError(f"{run.path} has no chains of finished steps to learn from")
    logged: dict[int, dict[str, float]] = {}
    for record in run.records:
        logged.setdefault(record.step, {}).update(record.metrics)
    order = trained_groups(run.path / "ledger.jsonl")
    with determinism(parts.settings):
        async with open_learner(parts, run.path) as learner:
            for file in finished[: parts.settings.train.steps]:
                groups = _in_order(collect_groups(file.read()), order.get(file.step, ()))
                kept = [group for group in groups if _is_learned_from(group, parts)]
                learn = partial(learner.learn, kept, parts.mask, version=None)
                learned = await asyncio.to_thread(learn)
                metrics = {f"train/{name}": value for name, value in learned.metrics.items()}
                yield ReplayedStep(
                    step=file.step,
                    metrics={**rollout_metrics(groups), **metrics},
                    recorded=logged.get(file.step, {}),
                )


def _in_order(groups: list[Group], ids: Sequence[str]) -> list[Group]:
    """Return groups in the order of the learner, which deals them to its minibatches by it.

    A file of chains has them in the order in which they finished.
    """
    places = {group_id: place for place, group_id in enumerate(ids)}
    return sorted(groups, key=lambda group: places.get(group.id, len(places)))


def _is_learned_from(group: Group, parts: RunParts) -> bool:
    return has_trainable(group) and (group.has_spread or not parts.algorithm.dynamic_sampling)
