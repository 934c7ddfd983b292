"""Packing changes the shape of the data and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.errors import ConfigError
from agentfly.training import pack, unpack
from agentfly.types import Sample


def sample(length: int, seed: int) -> Sample:
    mask = tuple((seed + i) % 3 != 0 for i in range(length))
    return Sample(
        token_ids=tuple(seed * 1000 + i for i in range(length)),
        mask=mask,
        logprobs=tuple(-0.1 * (i + 1) if on else 0.0 for i, on in enumerate(mask)),
        versions=tuple(seed if on else -1 for on in mask),
        turn_index=tuple(i // 4 for i in range(length)),
        temperature=0.5 + seed,
        chain_id=f"g/{seed}",
        group_id="g",
        weight=1 / (seed + 1),
    )


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(50, 120))
def test_unpacking_gives_back_what_was_packed(lengths: list[int], budget: int) -> None:
    samples = [sample(length, seed) for seed, length in enumerate(lengths)]
    rows = pack(samples, budget=budget)
    assert unpack(rows) == samples
    for row in rows:
        assert len(row.token_ids) == sum(segment.length for segment in row.segments) <= budget
        for start, end in row.bounds():
            assert row.positions[start:end] == tuple(range(end - start))


def test_rows_are_filled_best_fit_first() -> None:
    rows = pack([sample(n, i) for i, n in enumerate((5, 3, 2, 6, 4))], budget=10)
    assert [[segment.length for segment in row.segments] for row in rows] == [[6, 4], [5, 3, 2]]


def test_a_sample_that_fits_no_row_is_refused() -> None:
    with pytest.raises(ConfigError, match="11 tokens does not fit a budget of 10"):
        pack([sample(11, 0)], budget=10)
