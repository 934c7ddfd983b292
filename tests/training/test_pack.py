"""Packing changes the shape of the data and nothing else."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfly.training.learner.pack import (
    FOLLOWERS_PER_TOKEN,
    MIN_SHARED,
    PackedRow,
    pack,
)
from agentfly.types import Sample


def sample(*ids: int) -> Sample:
    count = len(ids)
    return Sample(
        token_ids=ids,
        mask=(False,) * count,
        logprobs=(0.0,) * count,
        versions=(-1,) * count,
        turn_index=(0,) * count,
        temperature=1.0,
        chain_id="c",
        group_id="g",
    )


def read(row: PackedRow) -> dict[int, tuple[int, ...]]:
    return {p.sample: tuple(row.token_ids[p.indices()].tolist()) for p in row.places}


# Few different tokens, in runs, so that samples often begin alike or are the same.
PIECES = st.sampled_from([(1,) * 20, (2,) * 20, (1,) * 3, (2,), (1, 2), (3,) * 40])
SAMPLES = st.lists(
    st.lists(PIECES, min_size=1, max_size=4).map(lambda parts: sample(*sum(parts, ()))),
    max_size=12,
)


@given(SAMPLES, st.integers(160, 400), st.booleans())
def test_every_sample_can_be_read_back_whole(
    samples: list[Sample], budget: int, share: bool
) -> None:
    rows = pack(samples, budget=budget, share=share)
    found: dict[int, tuple[int, ...]] = {}
    for row in rows:
        assert len(row.token_ids) <= budget
        assert not found.keys() & read(row).keys()
        found |= read(row)
    assert found == {i: s.token_ids for i, s in enumerate(samples)}


@given(SAMPLES, st.integers(160, 400), st.booleans())
def test_positions_count_from_the_sample_s_beginning(
    samples: list[Sample], budget: int, share: bool
) -> None:
    for row in pack(samples, budget=budget, share=share):
        assert sum(s.end - s.start for s in row.segments) == len(row.token_ids)
        for place in row.places:
            indices = place.indices()
            assert row.positions[indices].tolist() == list(range(len(indices)))
        for segment in row.segments:
            assert row.positions[segment.start] == segment.length_before
            assert all(end <= segment.start for _, end in segment.before)


def test_a_common_prompt_is_held_once() -> None:
    prompt = tuple(range(100, 150))
    row, *others = pack([sample(*prompt, n, n, n) for n in range(4)], budget=1000)
    assert not others
    assert len(row.token_ids) == 50 + 4 * 3
    assert [s.before for s in row.segments] == [(), ((0, 50),), ((0, 50),), ((0, 50),), ((0, 50),)]


def test_groups_share_a_system_prompt_and_each_its_own_question() -> None:
    system = tuple(range(100, 140))
    questions = [tuple(range(200, 220)), tuple(range(300, 320))]
    row, *_ = pack([sample(*system, *q, n) for q in questions for n in range(3)], budget=1000)
    assert len(row.token_ids) == 40 + 2 * 20 + 6


def test_a_short_common_beginning_is_not_worth_a_segment() -> None:
    shared = tuple(range(MIN_SHARED - 1))
    row, *_ = pack([sample(*shared, 100), sample(*shared, 101)], budget=1000)
    assert len(row.token_ids) == 2 * MIN_SHARED


def test_a_beginning_is_shared_only_where_it_saves_more_than_merging_costs() -> None:
    prompt = tuple(range(1000, 1000 + 2 * MIN_SHARED))

    def tokens(length: int) -> int:
        samples = [sample(*prompt, *range(n * length, (n + 1) * length)) for n in range(3)]
        (row,) = pack(samples, budget=10**6)
        return len(row.token_ids)

    saved = 2 * len(prompt)
    just = saved * FOLLOWERS_PER_TOKEN // 3
    assert tokens(just) == len(prompt) + 3 * just
    assert tokens(just + 1) == 3 * (len(prompt) + just + 1)


def test_a_row_that_would_not_fit_without_sharing_is_cut() -> None:
    """As if shared, both fit into one row: their beginning is too short for that to pay."""
    prompt = tuple(range(1000, 1000 + 2 * MIN_SHARED))
    samples = [sample(*prompt, n, *range(2000)) for n in range(2)]
    rows = pack(samples, budget=2 * 2001 + len(prompt) + MIN_SHARED)
    assert [len(row.token_ids) for row in rows] == [2033, 2033]


def test_a_group_larger_than_the_budget_repeats_its_prompt() -> None:
    prompt = tuple(range(100, 200))
    samples = [sample(*prompt, *(n,) * 50) for n in range(6)]
    rows = pack(samples, budget=300)
    assert [len(row.token_ids) for row in rows] == [250, 250]


def test_without_sharing_every_sample_is_a_segment_of_its_own() -> None:
    samples = [sample(*range(50)) for _ in range(3)]
    row, *_ = pack(samples, budget=1000, share=False)
    assert [s.before for s in row.segments] == [(), (), ()]


def test_a_sample_longer_than_the_budget_has_its_own_row_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        rows = pack([sample(*range(11)), sample(7, 8)], budget=10)
    assert [len(row.token_ids) for row in rows] == [11, 2]
    assert "11 tokens" in caplog.text
