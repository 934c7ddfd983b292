"""What a checkpoint holds, and how a run takes it up again.

step_20/
    config.json, model.safetensors, …    the model: a Hugging Face folder
    trainer.pt                           optimiser, schedule, critic, random states
    pending.jsonl                        groups that finished and wait to be trained on
"""

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from agentfly.observe import TrajectoryWriter, read_trajectories
from agentfly.tasks import Ledger
from agentfly.training.checkpoint import Checkpoint
from agentfly.training.learner import Learner
from agentfly.training.policy import Policy
from agentfly.types import Group, Trajectory

TRAINER = "trainer.pt"
PENDING = "pending.jsonl"


def write_state(
    folder: Path, *, policy: Policy, learner: Learner, pending: Iterable[Group]
) -> None:
    """Fill a checkpoint's folder."""
    policy.save(folder)
    torch.save({"learner": learner.state_dict(), "random": _random_states()}, folder / TRAINER)
    with TrajectoryWriter(folder / PENDING) as writer:
        for group in pending:
            for member in group.members:
                writer.write(member)


def restore_state(checkpoint: Checkpoint, *, policy: Policy, learner: Learner) -> list[Group]:
    """Put everything back as it was, and return the groups that wait to be trained on."""
    policy.restore(checkpoint.path)
    state = torch.load(checkpoint.path / TRAINER, map_location="cpu", weights_only=True)
    learner.load_state_dict(state["learner"])
    _restore_random(state["random"])
    return _groups(read_trajectories(checkpoint.path / PENDING))


def take_pending(ledger: Ledger, saved: Sequence[Group]) -> list[Group]:
    """Return the saved groups that the ledger waits to train on; those that are lost go again."""
    by_id = {group.id: group for group in saved}
    for visit in ledger.ready():
        if visit.group_id not in by_id:
            ledger.reissue(visit.group_id)
    return [by_id[visit.group_id] for visit in ledger.ready()]


def _groups(trajectories: Iterable[Trajectory]) -> list[Group]:
    members: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        members.setdefault(trajectory.group_id, []).append(trajectory)
    return [
        Group(id=group_id, task=chains[0].task, members=tuple(chains))
        for group_id, chains in members.items()
    ]


def _random_states() -> dict[str, Any]:
    """Save the global generators, which users' tools and rewards may draw from."""
    version, state, gauss = random.getstate()
    return {"torch": torch.get_rng_state(), "python": (version, list(state), gauss)}


def _restore_random(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    version, state, gauss = states["python"]
    random.setstate((version, tuple(state), gauss))
