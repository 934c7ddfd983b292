"""One step of the model, cut into shards of rows that run side by side, one thread each.

A thread per shard instead of torch's own threads within each operation: no barrier after every
matrix product, which on few cores costs more than it gains, and which collapses when another
process needs a core. Being single-threaded, a shard's arithmetic can't depend on thread counts.

Deterministic shards have a fixed number of rows, padded if need be. Then each row's outcome depends
neither on its place nor on its neighbors, and a token's keys, values and logits are a function of
the weights and of the tokens before it alone, bit for bit: whether it was prefilled or decoded, in
which batch, from a cached prefix or recomputed.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch

from agentfly.engines.local.forward_pass import Forward, prove_rows_independent
from agentfly.engines.local.span_attention import Span, SpanAttention
from agentfly.engines.local.token_sampling import Draw, Sampled, sample
from agentfly.types import SamplingParams

T = TypeVar("T")

TILE_ROWS = 16
"""Rows of a deterministic shard."""

MIN_SHARD_WORK = 2.5e8
"""Parameters times tokens; splitting less than this costs more in Python than it gains."""

PADDING = Draw(SamplingParams(temperature=0), 0.0)


@dataclass(frozen=True, slots=True)
class Work:
    """A span, and how to sample after it; None while tokens are left to prefill."""

    span: Span
    draw: Draw | None

    @property
    def cost(self) -> float:
        """Return about how long it takes, in rows: reading 2,000 keys costs as much as a row."""
        return self.span.count * (1 + self.span.end / 2000)


class Shards:
    """Runs steps on a few threads."""

    def __init__(self, *, threads: int, parameters: int, deterministic: bool) -> None:
        self._threads = threads
        self._parameters = parameters
        self._deterministic = deterministic
        self._others = ThreadPoolExecutor(
            max(1, threads - 1), thread_name_prefix="agentfly-shard", initializer=single_threaded
        )

    def run(self, forward: Forward, works: Sequence[Work]) -> list[Sampled | None]:
        """Compute every span, and sample where a draw is given."""
        shards = self._split(works)
        run = self._run_shard
        others = [
            self._others.submit(run, forward, [works[i] for i in shard]) for shard in shards[1:]
        ]
        results: list[Sampled | None] = [None] * len(works)
        first = run(forward, [works[i] for i in shards[0]])
        answers = [first, *(other.result() for other in others)]
        for shard, answer in zip(shards, answers, strict=True):
            for index, sampled in zip(shard, answer, strict=True):
                results[index] = sampled
        return results

    def prove_deterministic(self, forward: Forward, view: Any) -> None:
        """Raise ConfigError for a model whose padded shards are not deterministic."""
        prove = partial(prove_rows_independent, forward, rows=TILE_ROWS, view=view)
        self._others.submit(prove).result()

    def close(self) -> None:
        """End the threads."""
        self._others.shutdown()

    def _split(self, works: Sequence[Work]) -> list[list[int]]:
        if self._deterministic:
            return _tiles(works)
        total = sum(work.span.count for work in works)
        parts = int(total * self._parameters / MIN_SHARD_WORK)
        return _balanced(works, max(1, min(parts, self._threads, len(works))))

    def _run_shard(self, forward: Forward, works: Sequence[Work]) -> list[Sampled | None]:
        with torch.inference_mode():
            return _run(forward, works, deterministic=self._deterministic)


def single_threaded() -> None:
    """Let torch use no threads of its own in this thread, and as many as before in others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    # The call above also changed what threads start with that have not used torch yet.
    restorer = threading.Thread(target=torch.set_num_threads, args=(before,))
    restorer.start()
    restorer.join()


def _tiles(works: Sequence[Work]) -> list[list[int]]:
    tiles: list[list[int]] = [[]]
    rows = 0
    for index, work in enumerate(works):
        if rows + work.span.count > TILE_ROWS:
            tiles.append([])
            rows = 0
        tiles[-1].append(index)
        rows += work.span.count
    return tiles


def _balanced(works: Sequence[Work], parts: int) -> list[list[int]]:
    """Distribute the works, the largest first, each to the part that has least."""
    shards: list[list[int]] = [[] for _ in range(parts)]
    loads = [0.0] * parts
    for index in sorted(range(len(works)), key=lambda i: -works[i].cost):
        least = loads.index(min(loads))
        shards[least].append(index)
        loads[least] += works[index].cost
    return shards


def _run(forward: Forward, works: Sequence[Work], *, deterministic: bool) -> list[Sampled | None]:
    spans = [work.span for work in works]
    draws = [work.draw for work in works if work.draw is not None]
    ids, positions, ends = _flatten(spans)
    picks = [end for work, end in zip(works, ends, strict=True) if work.draw is not None]
    if deterministic:
        ids, positions = _padded(ids, 0), _padded(positions, 0)
        picks, draws = (_padded(picks, 0), _padded(draws, PADDING)) if draws else (picks, draws)
    device = spans[0].sequence.shape.device
    rows = [torch.tensor(row, dtype=torch.long, device=device) for row in (ids, positions, picks)]
    attend = SpanAttention(spans, token_by_token=deterministic)
    logits = forward(rows[0], rows[1], attend, rows[2])
    for span in spans:
        span.sequence.computed = span.end
    sampled = iter(sample(logits, draws) if draws else ())
    return [next(sampled) if work.draw is not None else None for work in works]


def _padded(row: list[T], filler: T) -> list[T]:
    return row + [filler] * (TILE_ROWS - len(row))


def _flatten(spans: Sequence[Span]) -> tuple[list[int], list[int], list[int]]:
    """Return the ids and positions of all tokens, and the row of each span's last one."""
    ids: list[int] = []
    positions: list[int] = []
    ends: list[int] = []
    for span in spans:
        ids += span.sequence.ids[span.start : span.end].tolist()
        positions += range(span.start, span.end)
        ends.append(len(ids) - 1)
    return ids, positions, ends
