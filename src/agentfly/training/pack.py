"""Packing samples into rows by a token budget, so that no padding is computed.

row:        [ a a a a a | b b b | c c ]      budget 10
positions:    0 1 2 3 4   0 1 2   0 1        attention stays within a segment
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from agentfly.errors import ConfigError
from agentfly.types import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One sample's place in a row, and what its tokens have in common."""

    sample: int
    """Its position in the list that was packed."""
    length: int
    chain_id: str
    group_id: str
    temperature: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRow:
    """Several samples end to end."""

    segments: tuple[Segment, ...]
    token_ids: tuple[int, ...]
    positions: tuple[int, ...]
    """Counted anew in each segment."""
    mask: tuple[bool, ...]
    logprobs: tuple[float, ...]
    versions: tuple[int, ...]
    turn_index: tuple[int, ...]

    def bounds(self) -> Iterator[tuple[int, int]]:
        """Yield where each segment begins and ends."""
        yield from pairwise(accumulate((s.length for s in self.segments), initial=0))


def pack(samples: Sequence[Sample], *, budget: int) -> list[PackedRow]:
    """Pack longest first, each into the fullest row that still has room (best fit decreasing).

    A sample longer than the budget is refused: cut its chain, or raise the budget.
    """
    longest = max((len(sample.token_ids) for sample in samples), default=0)
    if longest > budget:
        raise ConfigError(
            f"a sample of {longest} tokens does not fit a budget of {budget} tokens per row: "
            "raise the budget, or lower the chain's context_length"
        )
    rows: list[list[int]] = []
    room: list[int] = []
    by_length = sorted(range(len(samples)), key=lambda i: (-len(samples[i].token_ids), i))
    for index in by_length:
        length = len(samples[index].token_ids)
        fitting = [row for row in range(len(rows)) if room[row] >= length]
        if fitting:
            row = min(fitting, key=lambda row: room[row])
        else:
            row = len(rows)
            rows.append([])
            room.append(budget)
        rows[row].append(index)
        room[row] -= length
    return [_row(samples, members) for members in rows]


def _row(samples: Sequence[Sample], members: Sequence[int]) -> PackedRow:
    placed = [samples[index] for index in members]
    return PackedRow(
        segments=tuple(_segment(index, samples[index]) for index in members),
        token_ids=tuple(chain.from_iterable(s.token_ids for s in placed)),
        positions=tuple(chain.from_iterable(range(len(s.token_ids)) for s in placed)),
        mask=tuple(chain.from_iterable(s.mask for s in placed)),
        logprobs=tuple(chain.from_iterable(s.logprobs for s in placed)),
        versions=tuple(chain.from_iterable(s.versions for s in placed)),
        turn_index=tuple(chain.from_iterable(s.turn_index for s in placed)),
    )


def _segment(index: int, sample: Sample) -> Segment:
    return Segment(
        sample=index,
        length=len(sample.token_ids),
        chain_id=sample.chain_id,
        group_id=sample.group_id,
        temperature=sample.temperature,
        weight=sample.weight,
    )


def unpack(rows: Sequence[PackedRow]) -> list[Sample]:
    """Return the samples in the order in which they were packed."""
    found = {
        segment.sample: _sample(row, segment, start, end)
        for row in rows
        for segment, (start, end) in zip(row.segments, row.bounds(), strict=True)
    }
    return [found[index] for index in range(len(found))]


def _sample(row: PackedRow, segment: Segment, start: int, end: int) -> Sample:
    return Sample(
        token_ids=row.token_ids[start:end],
        mask=row.mask[start:end],
        logprobs=row.logprobs[start:end],
        versions=row.versions[start:end],
        turn_index=row.turn_index[start:end],
        temperature=segment.temperature,
        chain_id=segment.chain_id,
        group_id=segment.group_id,
        weight=segment.weight,
    )
