"""Weights in Ray's object store, in chunks of bounded size.

    learner ──► chunk by chunk into the store of this node ──► each engine reads chunk by chunk

Here and in an engine's process, one chunk is in memory at a time. The store keeps one version, so
that an engine which starts again gets exactly the version that the others have; what does not fit
into the store's shared memory, Ray keeps on disk.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch

from agentfly.types import NamedTensors

CHUNK_BYTES = 64 * 2**20
"""Size of a chunk; a single tensor that is larger is a chunk of its own."""
GET_SECONDS = 300.0
"""Time limit of moving one chunk to another node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensor:
    """A tensor as bytes, which the store shares between processes without copying."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: "np.ndarray[Any, np.dtype[np.uint8]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightObjects:
    """One version of the weights in the object store."""

    chunks: tuple[Any, ...]
    """References to tuples of packed tensors."""
    largest: int
    """Bytes of the largest chunk."""

    def stream(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors, with one chunk in memory at a time."""
        for reference in self.chunks:
            chunk: tuple[PackedTensor, ...] = ray.get(reference, timeout=GET_SECONDS)
            for packed in chunk:
                yield packed.name, _unpacked(packed)
            del chunk


class WeightStore:
    """Puts each version into the object store once, for all engines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: NamedTensors | None = None
        self._objects: WeightObjects | None = None

    def put(self, weights: NamedTensors) -> WeightObjects:
        """Return a version's objects; those of the version before are freed. Blocks."""
        with self._lock:
            if self._objects is None or self._weights is not weights:
                self._objects = None
                self._objects = _put(weights)
                self._weights = weights
            return self._objects


def _put(weights: NamedTensors) -> WeightObjects:
    references, largest = [], 0
    for chunk in chunked(_packed(name, tensor) for name, tensor in weights.stream()):
        largest = max(largest, sum(packed.data.nbytes for packed in chunk))
        references.append(ray.put(chunk))
    return WeightObjects(chunks=tuple(references), largest=largest)


def chunked(tensors: Iterable[PackedTensor]) -> Iterator[tuple[PackedTensor, ...]]:
    """Group tensors, in their order, into chunks of at most `CHUNK_BYTES`."""
    chunk: list[PackedTensor] = []
    size = 0
    for packed in tensors:
        if chunk and size + packed.data.nbytes > CHUNK_BYTES:
            yield tuple(chunk)
            chunk, size = [], 0
        chunk.append(packed)
        size += packed.data.nbytes
    if chunk:
        yield tuple(chunk)


def _packed(name: str, tensor: torch.Tensor) -> PackedTensor:
    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy()
    dtype = str(plain.dtype).removeprefix("torch.")
    return PackedTensor(name=name, dtype=dtype, shape=tuple(plain.shape), data=data)


def _unpacked(packed: PackedTensor) -> torch.Tensor:
    # Copied: what the store shares is read-only, and freed while the tensor may still be used.
    data = torch.from_numpy(packed.data.copy())
    return data.view(getattr(torch, packed.dtype)).reshape(packed.shape)
