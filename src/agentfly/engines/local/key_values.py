"""The keys and values of one token sequence, in memory of its own.

Each sequence has its own buffer, because attention is computed sequence by sequence: exactly as
many keys are read as there are, nothing is padded, and no outcome depends on a neighbor.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

TokenIds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShape:
    """Shape and dtype of one token's keys and values."""

    layers: int
    heads: int
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes_per_token(self) -> int:
        """Return the size of the keys and values of one token over all layers."""
        return 2 * self.layers * self.heads * self.width * self.dtype.itemsize

    def allocate(self, capacity: int) -> Tensor:
        """Return a buffer for `capacity` tokens: layer, keys or values, 1, head, token, width."""
        size = (self.layers, 2, 1, self.heads, capacity, self.width)
        return torch.empty(size, dtype=self.dtype, device=self.device)


class KeyValues:
    """Token ids, and the keys and values of the first `computed` of them.

    >>> kv = KeyValues(shape, "chain", [5, 6, 7], capacity=8)     # doctest: +SKIP
    >>> kv.pending, kv.computed                                   # doctest: +SKIP
    (3, 0)
    """

    __slots__ = ("_ids", "capacity", "chain_id", "computed", "known", "layers", "shape")

    def __init__(self, shape: CacheShape, chain_id: str, ids: TokenIds, *, capacity: int) -> None:
        self.shape = shape
        self.chain_id = chain_id
        self.capacity = capacity
        self.known = len(ids)
        self.computed = 0
        self._ids: TokenIds = np.empty(capacity, np.int64)
        self._ids[: self.known] = ids
        self.layers = shape.allocate(capacity).unbind(0)

    @property
    def ids(self) -> TokenIds:
        """All tokens that are known, computed or not."""
        return self._ids[: self.known]

    @property
    def pending(self) -> int:
        """Number of known tokens that have not yet gone through the model."""
        return self.known - self.computed

    @property
    def nbytes(self) -> int:
        """Size of the buffer."""
        return self.capacity * self.shape.bytes_per_token

    def append(self, token_id: int) -> None:
        """Append a token; its keys and values are computed in the next step."""
        self._ids[self.known] = token_id
        self.known += 1

    def truncate(self, length: int) -> None:
        """Forget what follows the first `length` tokens."""
        self.known = min(self.known, length)
        self.computed = min(self.computed, length)

    def continue_as(self, ids: TokenIds, *, shared: int, capacity: int) -> None:
        """Replace the ids by others that begin with the same `shared` ones."""
        self.truncate(shared)
        if capacity > self.capacity:
            self.resize(capacity)
        self._ids[: len(ids)] = ids
        self.known = len(ids)

    def copy_prefix(self, source: "KeyValues", length: int) -> None:
        """Copy the keys and values of a common prefix."""
        for mine, theirs in zip(self.layers, source.layers, strict=True):
            mine[..., :length, :] = theirs[..., :length, :]
        self.computed = length

    def resize(self, capacity: int) -> None:
        """Move to a buffer of another size."""
        old = self.layers
        self.layers = self.shape.allocate(capacity).unbind(0)
        for new, before in zip(self.layers, old, strict=True):
            new[..., : self.computed, :] = before[..., : self.computed, :]
        ids = np.empty(capacity, np.int64)
        ids[: self.known] = self.ids
        self._ids, self.capacity = ids, capacity


def common_prefix(a: TokenIds, b: TokenIds) -> int:
    """Return the length of the common prefix.

    >>> common_prefix(np.array([1, 2, 3]), np.array([1, 2, 9, 9]))
    2
    """
    length = min(len(a), len(b))
    differs = a[:length] != b[:length]
    first = int(differs.argmax()) if length else 0
    return first if length and differs[first] else length
