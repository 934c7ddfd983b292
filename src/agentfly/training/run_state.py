"""The state of a run in addition to its weights, and the deterministic mode.

step_20/
    config.json, model.safetensors, …    the model: a Hugging Face folder
    learner.pt                           optimizer, schedule, critic
    trainer.pt                           random states
    finished.jsonl                       groups that finished, and were not yet trained on

In a deterministic run nothing but the seed decides, on processors and on GPUs. torch then refuses
every operation that has no deterministic form. On CUDA that is above all a `cumsum` of floats,
which sampling does on the processor in this mode, and any matrix product unless cuBLAS was set to
keep fixed workspaces, before its first use. Of the attention kernels cuDNN's has no deterministic
backward pass, and is left out.
"""

import os
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agentfly.config import RunSettings
from agentfly.errors import ConfigError
from agentfly.observe import TrajectoryWriter, read_trajectories
from agentfly.training.checkpoint import Checkpoint
from agentfly.types import Group, Learner, collect_groups

TRAINER = "trainer.pt"
FINISHED = "finished.jsonl"

CUBLAS_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG"
"""Environment variable that cuBLAS reads when it is first used."""
FIXED = (":4096:8", ":16:8")
"""Its values with which cuBLAS gives the same numbers each time; the first is the faster one."""


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


@contextmanager
def determinism(settings: RunSettings) -> Iterator[None]:
    """Let nothing but the seed decide in the body, where the settings ask for that."""
    if not settings.deterministic:
        yield
        return
    if settings.model.device != "cpu" and torch.cuda.is_available():
        _fix_workspaces()
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.cudnn_sdp_enabled()
    _set(deterministic=True, cudnn_attention=False)
    seed_everything(settings.seed)
    try:
        yield
    finally:
        _set(deterministic=before[0], cudnn_attention=before[1])


def _set(*, deterministic: bool, cudnn_attention: bool) -> None:
    torch.use_deterministic_algorithms(mode=deterministic)
    torch.backends.cuda.enable_cudnn_sdp(enabled=cudnn_attention)


def _fix_workspaces() -> None:
    """Set fixed workspaces for cuBLAS, or raise a ConfigError if it is too late for that."""
    given = os.environ.get(CUBLAS_WORKSPACES)
    if given in FIXED:
        return
    if given is not None or torch.cuda.is_initialized():
        got = f"is {given!r}" if given is not None else "is not set, and the GPU is in use already"
        raise ConfigError(
            f"a deterministic run on a GPU needs {CUBLAS_WORKSPACES}={FIXED[0]}, and it {got}: set "
            "it before Python is started, or set deterministic to false"
        )
    os.environ[CUBLAS_WORKSPACES] = FIXED[0]
