"""What a checkpoint holds, and how a run takes it up again.

step_20/
    config.json, model.safetensors, …    the model: a Hugging Face folder
    learner.pt                           optimizer, schedule, critic
    trainer.pt                           random states
    finished.jsonl                       groups that finished, and were not yet trained on
"""

import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from agentfly.errors import ConfigError
from agentfly.observe import TrajectoryWriter, read_trajectories
from agentfly.training.checkpoint import Checkpoint
from agentfly.types import Group, Learner, collect_groups

TRAINER = "trainer.pt"
FINISHED = "finished.jsonl"


def write_state(folder: Path, *, learner: Learner, finished: Iterable[Group]) -> None:
    """Fill a checkpoint's folder."""
    learner.save(folder)
    state = {"random": _random_states(), "threads": torch.get_num_threads()}
    torch.save(state, folder / TRAINER)
    with TrajectoryWriter(folder / FINISHED) as writer:
        for group in finished:
            writer.write_group(group)


def restore_state(checkpoint: Checkpoint, learner: Learner) -> list[Group]:
    """Put everything back as it was, and return the groups that were not yet trained on."""
    state = torch.load(checkpoint.path / TRAINER, map_location="cpu", weights_only=True)
    _require_threads(state["threads"])
    learner.restore(checkpoint.path)
    _restore_random(state["random"])
    return collect_groups(read_trajectories(checkpoint.path / FINISHED))


def seed_everything(seed: int) -> None:
    """Give the global generators a fixed start; NumPy's only where it is used at all."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _require_threads(then: int) -> None:
    """Refuse to go on in deterministic mode with sums in another order."""
    now = torch.get_num_threads()
    if then != now and torch.are_deterministic_algorithms_enabled():
        raise ConfigError(
            f"the run was started with {then} threads of torch, and there are {now} now: a "
            f"deterministic run needs the same number. Set OMP_NUM_THREADS={then}"
        )


def _random_states() -> dict[str, Any]:
    """Save the global generators, which users' tools and rewards may draw from."""
    version, state, gauss = random.getstate()
    states = {"torch": torch.get_rng_state(), "python": (version, list(state), gauss)}
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        states["numpy"] = (name, keys.tolist(), *rest)
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def _restore_random(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"])
    version, state, gauss = states["python"]
    random.setstate((version, tuple(state), gauss))
    if "numpy" in states:
        import numpy as np

        name, keys, *rest = states["numpy"]
        np.random.set_state((name, np.array(keys, dtype=np.uint32), *rest))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(states["cuda"])
