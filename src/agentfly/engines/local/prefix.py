"""Finding the cached sequence that shares the longest beginning with some ids.

Ids are cut into blocks, and each block is known by a hash of itself and all before it: one lookup
for each block leads to the sequences that share it, however many are cached.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from agentfly.engines.local.key_values import KeyValues, TokenIds, common_prefix

BLOCK = 8
"""Tokens of a block; a shorter common beginning is not found."""

CANDIDATES = 4
"""How many of the sequences that share the last block are compared token by token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The best beginning that the cache holds for some ids."""

    source: KeyValues
    length: int
    """Tokens in common, computed or about to be."""

    @property
    def ready(self) -> int:
        """How many of them can be copied now."""
        return min(self.length, self.source.computed)


class PrefixIndex:
    """Which sequences begin with which blocks."""

    def __init__(self) -> None:
        self._holders: dict[int, dict[KeyValues, None]] = {}
        self._keys: dict[KeyValues, list[int]] = {}

    def add(self, sequence: KeyValues) -> None:
        """Index all tokens that are known; call it again when there are more."""
        self.remove(sequence)
        self._keys[sequence] = list(_keys(sequence.ids))
        for key in self._keys[sequence]:
            self._holders.setdefault(key, {})[sequence] = None

    def remove(self, sequence: KeyValues) -> None:
        """Forget a sequence."""
        for key in self._keys.pop(sequence, ()):
            holders = self._holders[key]
            del holders[sequence]
            if not holders:
                del self._holders[key]

    def find(self, ids: TokenIds) -> Prefix | None:
        """Return the longest beginning of `ids`, one token short of all of them at most.

        The last token has to go through the model, because its logits are wanted.
        """
        shared: dict[KeyValues, None] = {}
        for key in _keys(ids):
            if key not in self._holders:
                break
            shared = self._holders[key]
        newest = itertools.islice(reversed(shared), CANDIDATES)
        found = (
            Prefix(source=source, length=min(common_prefix(source.ids, ids), len(ids) - 1))
            for source in newest
        )
        return max(found, key=lambda prefix: (prefix.length, prefix.ready), default=None)


def _keys(ids: TokenIds) -> Iterator[int]:
    key = 0
    for start in range(0, len(ids) - BLOCK + 1, BLOCK):
        key = hash((key, ids[start : start + BLOCK].tobytes()))
        yield key
