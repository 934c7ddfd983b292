"""The cache of keys and values: which sequences are kept, within a fixed amount of memory.

A running sequence is never evicted. An idle one (a chain between two turns, or one that has ended
and may still lend its prompt) stays until its memory is needed; the least recently used goes first.
The bound may be exceeded for the moment in which one sequence moves to a larger buffer.

Ids are cut into blocks, and each block is identified by a hash of itself and all before it: one
lookup per block finds the sequences that share a beginning, however many are cached.
"""

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from agentfly.engines.local.key_values import CacheShape, KeyValues, TokenIds, common_prefix

BLOCK = 8
"""Tokens of a block; a shorter common beginning is not found."""

CANDIDATES = 4
"""Number of sequences sharing the last block that are compared token by token."""

GROWTH = 1.5
"""Factor by which a full buffer grows: few moves, little waste."""

FIRST_ROOM = 64
"""Tokens that a new sequence may sample before its buffer must grow."""


@dataclass(slots=True, kw_only=True)
class Counters:
    """Totals since the engine was made."""

    prefilled_tokens: int = 0
    """Tokens computed that were not just sampled: prompts, suffixes, recomputed ones."""
    decoded_tokens: int = 0
    """Tokens sampled."""
    reused_tokens: int = 0
    """Tokens whose keys and values were found in the cache instead of being prefilled."""
    evictions: int = 0
    """Idle sequences dropped because another needed the memory."""
    preemptions: int = 0
    """Running sequences dropped, to be recomputed later, because an older one needed the memory."""
    cache_bytes: int = 0
    """Memory that keys and values take now."""
    peak_cache_bytes: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The best beginning that the cache holds for some ids."""

    source: KeyValues
    length: int
    """Tokens in common, computed or about to be."""

    @property
    def ready(self) -> int:
        """Number of them that can be copied now."""
        return min(self.length, self.source.computed)


class PrefixIndex:
    """Index of sequences by the blocks that they begin with."""

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


class Cache:
    """All sequences, running and idle."""

    def __init__(self, shape: CacheShape, *, max_bytes: int, counters: Counters) -> None:
        self.shape = shape
        self.max_tokens = max_bytes // shape.bytes_per_token
        self._max_bytes = max_bytes
        self._counters = counters
        self._index = PrefixIndex()
        self._running: dict[KeyValues, None] = {}
        self._idle: OrderedDict[str, KeyValues] = OrderedDict()
        self._idle_bytes = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._idle)

    def find(self, ids: TokenIds) -> Prefix | None:
        """Return the longest beginning of `ids` that some sequence has, or is about to have."""
        return self._index.find(ids)

    def open(self, chain_id: str, ids: TokenIds, *, limit: int) -> KeyValues | None:
        """Start a sequence, reusing a cached prefix; None if there is no memory now.

        `limit` is how long it may become.
        """
        capacity = min(len(ids) + FIRST_ROOM, limit)
        prefix = self.find(ids)
        if prefix is not None and self._idle.get(chain_id) is prefix.source:
            return self._resume(prefix, ids, capacity)
        if prefix is not None:
            self._touch(prefix.source)
        if not self._make_room(capacity * self.shape.bytes_per_token):
            return None
        sequence = KeyValues(self.shape, chain_id, ids, capacity=capacity)
        # Freeing memory may have dropped the sequence that was found.
        self._reuse(sequence, self.find(ids))
        self.forget(chain_id)
        self._running[sequence] = None
        self._index.add(sequence)
        self._account(sequence.nbytes)
        return sequence

    def grow(self, sequence: KeyValues, *, limit: int) -> bool:
        """Grow the buffer if one more token does not fit; return False without memory for that."""
        if sequence.known < sequence.capacity:
            return True
        wanted = min(int(sequence.capacity * GROWTH) + 1, limit)
        for capacity in (wanted, sequence.capacity + 1):
            extra = (capacity - sequence.capacity) * self.shape.bytes_per_token
            if self._make_room(extra):
                sequence.resize(capacity)
                self._account(extra)
                return True
        return False

    def park(self, sequence: KeyValues) -> None:
        """Keep an idle sequence until its chain's next turn."""
        sequence.truncate(sequence.computed)
        del self._running[sequence]
        self.forget(sequence.chain_id)
        self._idle[sequence.chain_id] = sequence
        self._idle_bytes += sequence.nbytes
        self._index.add(sequence)

    def drop(self, sequence: KeyValues) -> None:
        """Free a running sequence."""
        del self._running[sequence]
        self._index.remove(sequence)
        self._account(-sequence.nbytes)

    def drop_idle(self) -> None:
        """Free every sequence that isn't running."""
        for chain_id in list(self._idle):
            self.forget(chain_id)

    def forget(self, chain_id: str) -> None:
        """Free what a chain left behind between two turns, if anything."""
        sequence = self._idle.pop(chain_id, None)
        if sequence is not None:
            self._idle_bytes -= sequence.nbytes
            self._index.remove(sequence)
            self._account(-sequence.nbytes)

    def _resume(self, prefix: Prefix, ids: TokenIds, capacity: int) -> KeyValues | None:
        """Go on with the chain's own sequence, in its own buffer if that is large enough."""
        sequence = prefix.source
        extra = max(0, capacity - sequence.capacity) * self.shape.bytes_per_token
        del self._idle[sequence.chain_id]
        self._idle_bytes -= sequence.nbytes
        self._running[sequence] = None
        if not self._make_room(extra):
            self.park(sequence)
            return None
        sequence.continue_as(ids, shared=prefix.length, capacity=capacity)
        self._index.add(sequence)
        self._account(extra)
        self._counters.reused_tokens += prefix.length
        return sequence

    def _reuse(self, sequence: KeyValues, prefix: Prefix | None) -> None:
        if prefix is not None and prefix.ready:
            sequence.copy_prefix(prefix.source, prefix.ready)
            self._counters.reused_tokens += prefix.ready

    def _touch(self, sequence: KeyValues) -> None:
        if self._idle.get(sequence.chain_id) is sequence:
            self._idle.move_to_end(sequence.chain_id)

    def _make_room(self, nbytes: int) -> bool:
        running_bytes = self._counters.cache_bytes - self._idle_bytes
        if running_bytes + nbytes > self._max_bytes:
            return False
        while self._counters.cache_bytes + nbytes > self._max_bytes:
            self.forget(next(iter(self._idle)))
            self._counters.evictions += 1
        return True

    def _account(self, nbytes: int) -> None:
        counters = self._counters
        counters.cache_bytes += nbytes
        counters.peak_cache_bytes = max(counters.peak_cache_bytes, counters.cache_bytes)
