"""Determinism: nothing but the seed decides, on processors and on GPUs.

torch then refuses every operation that has no deterministic form. On CUDA that is above all a
`cumsum` of floats, which sampling does on the processor in this mode, and any matrix product unless
cuBLAS was told to keep fixed workspaces, before its first use. Of the attention kernels cuDNN's has
no deterministic backward pass, and is left out.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from agentfly.config import RunSettings
from agentfly.errors import ConfigError
from agentfly.training.run_state import seed_everything

CUBLAS_WORKSPACES = "CUBLAS_WORKSPACE_CONFIG"
"""Environment variable that cuBLAS reads when it is first used."""
FIXED = (":4096:8", ":16:8")
"""Its values with which cuBLAS gives the same numbers each time; the first is the faster one."""


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
    """Tell cuBLAS to keep fixed workspaces, or say why it is too late for that."""
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
