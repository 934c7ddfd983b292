"""Hugging Face folders, written tensor by tensor, by all processes of a learner.

No process ever holds more than one file of them in memory: sharded tensors are gathered one by one,
and each file is written by one process.
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agentfly.training.learner.peers import Peers

FILE_BYTES = 2**30
"""Size of one file, which is also what a process keeps in memory while it writes."""
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class LazyTensor:
    """A tensor of a model by its name in a Hugging Face folder, whole only when it is read."""

    name: str
    like: Tensor
    """Gives the shape; perhaps sharded."""
    read: Callable[[], Tensor]


def write_tensors(
    tensors: Sequence[LazyTensor],
    folder: Path,
    *,
    dtype: torch.dtype,
    peers: Peers,
    file_bytes: int | None = None,
) -> None:
    """Write all tensors, the head of tied embeddings too.

    `save_pretrained` leaves such a head out, and a server that ties it only when it starts would
    keep the old one.

    Args:
        tensors: The same ones, in the same order, in every process.
        folder: Made if it is not there; all processes must see it.
        dtype: What they are written in.
        peers: The processes, which write files in turn.
        file_bytes: Size from which another file is begun.
    """
    sizes = [tensor.like.numel() * dtype.itemsize for tensor in tensors]
    files = _files(sizes, file_bytes or FILE_BYTES)
    folder.mkdir(parents=True, exist_ok=True)
    for number, members in enumerate(files):
        mine = number % peers.size == peers.rank
        held = {}
        for tensor in (tensors[index] for index in members):
            value = tensor.read()
            if mine:
                held[tensor.name] = value.detach().to("cpu", dtype, copy=True).contiguous()
            del value
        if mine:
            _save(held, folder / _name(number, len(files)))
    if peers.rank == 0 and len(files) > 1:
        named = {
            tensors[i].name: _name(n, len(files)) for n, file in enumerate(files) for i in file
        }
        index = {"metadata": {"total_size": sum(sizes)}, "weight_map": named}
        (folder / INDEX).write_text(json.dumps(index, indent=2), encoding="utf-8")
    peers.sum(0)  # All files are there when any process goes on.


def _files(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """Divide tensors into files, in order.

    >>> _files([3, 3, 3, 9, 1], 6)
    [[0, 1], [2], [3], [4]]
    """
    files: list[list[int]] = [[]]
    for index, size in enumerate(sizes):
        if files[-1] and sum(sizes[i] for i in files[-1]) + size > limit:
            files.append([])
        files[-1].append(index)
    return files


def _name(number: int, count: int) -> str:
    return (
        f"model-{number + 1:05d}-of-{count:05d}.safetensors" if count > 1 else "model.safetensors"
    )


def _save(tensors: dict[str, Tensor], file: Path) -> None:
    from safetensors.torch import save_file

    save_file(tensors, file, metadata={"format": "pt"})


def write_config(causal_lm: Any, folder: Path, *, dtype: torch.dtype) -> None:
    """Write the configuration files of a model, whose weights are saved in a dtype."""
    config = copy.deepcopy(causal_lm.config)
    config.dtype = dtype
    config.architectures = [type(causal_lm).__name__]
    config.save_pretrained(folder)
    generation = getattr(causal_lm, "generation_config", None)
    if generation is not None:
        generation.save_pretrained(folder)
