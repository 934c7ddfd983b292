"""Packing samples into rows by a token budget: no padding, and what samples share only once.

Three samples of one group, whose prompt is `p`, and what becomes of them:

    p p p a a          row:        [ p p p | a a | b | c c c ]
    p p p b            positions:    0 1 2   3 4   3   3 4 5
    p p p c c c        segments:     each attends to itself, and to `p` before it

A row is a forest of such segments: samples of several groups often share a system prompt, then
groups a question, then chains a first turn.

A common beginning is shared where it pays. That saves its tokens for all samples but one. It costs
a few calls in each layer, and the merging of attention at every token that follows it: measured on
processors, about as much as `MIN_SHARED` tokens and one in `FOLLOWERS_PER_TOKEN` of the followers.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby

import torch
from torch import Tensor

from agentfly.types import Sample

MIN_SHARED = 16
"""Tokens that samples must have in common for a segment of their own: fewer cost more in calls
than they save in arithmetic."""

FOLLOWERS_PER_TOKEN = 32
"""Tokens whose attention can be merged for the price of one token in a layer."""

Span = tuple[int, int]
"""First position of a run of tokens in its row, and the position after its last."""

Ids = tuple[int, ...]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of tokens that attends to itself, causally, and to all that comes before it."""

    start: int
    end: int
    before: tuple[Span, ...] = ()
    """Spans of the same row that precede it in its sequences, in order."""

    @property
    def path(self) -> tuple[Span, ...]:
        """All that a sequence holds which ends with this segment.

        >>> Segment(start=5, end=7, before=((0, 5),)).path
        ((0, 7),)
        """
        if self.before and self.before[-1][1] == self.start:
            return (*self.before[:-1], (self.before[-1][0], self.end))
        return (*self.before, (self.start, self.end))

    @property
    def length_before(self) -> int:
        """Number of tokens that precede it."""
        return sum(end - start for start, end in self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Place of one sample's tokens in a row."""

    sample: int
    """Its position in the list that was packed."""
    path: tuple[Span, ...]

    def indices(self) -> list[int]:
        """Return the index in the row of each of its tokens."""
        return list(chain.from_iterable(range(start, end) for start, end in self.path))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRow:
    """Several samples in one row."""

    token_ids: Tensor
    positions: Tensor
    """Position of each token in its sample."""
    segments: tuple[Segment, ...]
    places: tuple[Place, ...]


def pack(samples: Sequence[Sample], *, budget: int, share: bool = True) -> list[PackedRow]:
    """Put samples into rows of at most `budget` tokens, those with a common beginning together.

    A sample that is longer than the budget gets a row of its own, and a word in the log.
    """
    everything = [sample.token_ids for sample in samples]
    _warn_of_long(everything, budget)
    # In this order each sample has its longest common beginning with a neighbor.
    order = sorted(range(len(samples)), key=everything.__getitem__)
    least = MIN_SHARED if share else None
    runs = _cut(everything, order, budget, least)
    return [row for run in runs for row in _fitting(everything, run, budget, least)]


def _warn_of_long(everything: Sequence[Ids], budget: int) -> None:
    longest = max(map(len, everything), default=0)
    if longest > budget:
        _log.warning(
            "a sample of %d tokens goes through the model at once, which is more than "
            "train.tokens_per_microbatch = %d: if memory runs out, lower rollout.context_length",
            *(longest, budget),
        )


def _cut(
    everything: Sequence[Ids], order: Sequence[int], budget: int, least: int | None
) -> Iterator[list[int]]:
    """Fill one row after the other, as if every long common beginning were shared."""
    run: list[int] = []
    used = 0
    for index in order:
        ids = everything[index]
        new = len(ids) - (_surely_shared(everything[run[-1]], ids, least) if run else 0)
        if run and used + new > budget:
            yield run
            run, used, new = [], 0, len(ids)
        run.append(index)
        used += new
    if run:
        yield run


def _surely_shared(a: Ids, b: Ids, least: int | None) -> int:
    """Return how many tokens of neighbors are shared, if it pays."""
    if least is None:
        return 0
    return max(0, _common(a, b) - least)


def _common(a: Ids, b: Ids) -> int:
    """Return how many tokens are the same from the beginning.

    >>> _common((1, 2, 3), (1, 2, 4, 5))
    2
    """
    different = (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
    return next(different, min(len(a), len(b)))


@dataclass(slots=True)
class _Forest:
    """A row while its segments grow."""

    everything: Sequence[Ids]
    least: int
    token_ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    segments: list[Segment] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def grow(self, run: Sequence[int], depth: int = 0, before: tuple[Span, ...] = ()) -> None:
        """Add samples in sorted order, whose first `depth` tokens are in the row already."""
        first, last = self.everything[run[0]], self.everything[run[-1]]
        common = _common(first, last)
        if first == last or self._pays(run, common, depth):
            before = self._add(first, depth, common, before)
            depth = common
        for ended, branch in self._branches(run, common):
            if ended and depth == common:
                self.places += [Place(sample=index, path=before) for index in branch]
            else:
                self.grow(branch, depth, before)

    def _pays(self, run: Sequence[int], common: int, depth: int) -> bool:
        saved = (len(run) - 1) * (common - depth)
        followers = sum(len(self.everything[index]) - common for index in run)
        return common - depth >= self.least and saved * FOLLOWERS_PER_TOKEN >= followers

    def _add(self, ids: Ids, depth: int, end: int, before: tuple[Span, ...]) -> tuple[Span, ...]:
        start = len(self.token_ids)
        self.token_ids += ids[depth:end]
        self.positions += range(depth, end)
        segment = Segment(start=start, end=len(self.token_ids), before=before)
        if end > depth:
            self.segments.append(segment)
        return segment.path if end > depth else before

    def _branches(self, run: Sequence[int], common: int) -> Iterator[tuple[bool, list[int]]]:
        """Part samples by what follows the tokens that all of them have in common."""

        def following(index: int) -> Ids:
            return self.everything[index][common : common + 1]

        for token, members in groupby(run, key=following):
            yield not token, list(members)

    def row(self) -> PackedRow:
        return PackedRow(
            token_ids=torch.tensor(self.token_ids),
            positions=torch.tensor(self.positions),
            segments=tuple(self.segments),
            places=tuple(sorted(self.places, key=lambda place: place.sample)),
        )


def _fitting(
    everything: Sequence[Ids], run: Sequence[int], budget: int, least: int | None
) -> Iterator[PackedRow]:
    """Make one row of some samples, or several where less is shared than it seemed."""
    row = _plant(everything, run, least)
    if len(row.token_ids) <= budget or len(run) == 1:
        yield row
        return
    middle = len(run) // 2
    for half in (run[:middle], run[middle:]):
        yield from _fitting(everything, half, budget, least)


def _plant(everything: Sequence[Ids], run: Sequence[int], least: int | None) -> PackedRow:
    forest = _Forest(everything, least or 0)
    for members in [run] if least is not None else [[index] for index in run]:
        forest.grow(members)
    return forest.row()
