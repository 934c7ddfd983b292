"""FlexAttention, the way on CUDA, gives what attention segment by segment gives, on processors."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.training.learner_cases import Words
from torch import Tensor
from torch.nn.attention import flex_attention as torch_flex

from agentfly.training.learner.flex_attention import (
    BLOCK,
    FlexAttention,
    attention_for,
    block_mask,
    reach_of,
)
from agentfly.training.learner.pack import PackedRow, pack
from agentfly.training.learner.segment_attention import SegmentAttention
from agentfly.types import Sample

CPU = torch.device("cpu")


def sample(ids: tuple[int, ...]) -> Sample:
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


def make_row(*, share: bool) -> PackedRow:
    """Three groups of three chains, with a system prompt that all of them have in common."""
    words = Words(3)
    system = words.ids(60, 60)
    questions = [(*system, *words.ids(60, 80)) for _ in range(3)]
    samples = [sample((*question, *words.ids(5, 40))) for question in questions for _ in range(3)]
    (row,) = pack(samples, budget=10_000, share=share)
    return row


def visible(row: PackedRow) -> Tensor:
    """Return who sees whom, by the paths of the segments."""
    seen = torch.zeros(len(row.token_ids), len(row.token_ids), dtype=torch.bool)
    for segment in row.segments:
        for query in range(segment.start, segment.end):
            seen[query, segment.start : query + 1] = True
            for start, end in segment.before:
                seen[query, start:end] = True
    return seen


@pytest.mark.parametrize("share", [True, False])
def test_a_block_is_skipped_only_if_nothing_in_it_is_seen(share: bool) -> None:
    row = make_row(share=share)
    mask = block_mask(reach_of(row.segments))
    seen = visible(row)
    count = len(seen)
    positions = torch.arange(count)
    by_rule = mask.mask_mod(None, None, positions[:, None], positions[None])  # type: ignore[arg-type]
    assert torch.equal(by_rule, seen)
    blocks = -(-count // BLOCK)
    padded = torch.zeros(blocks * BLOCK, blocks * BLOCK, dtype=torch.bool)
    padded[:count, :count] = seen
    tiles = padded.view(blocks, BLOCK, blocks, BLOCK).transpose(1, 2)
    looked_at = mask.to_dense()[0, 0].bool()
    assert not (tiles.any(-1).any(-1) & ~looked_at).any()
    assert mask.full_kv_num_blocks is not None
    assert mask.full_kv_indices is not None
    for query in range(blocks):
        for place in range(int(mask.full_kv_num_blocks[0, 0, query])):
            assert tiles[query, mask.full_kv_indices[0, 0, query, place]].all()
    assert not looked_at.all(), "some blocks are skipped"


@pytest.mark.parametrize("share", [True, False])
def test_outputs_and_gradients_are_those_of_attention_by_segments(
    share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It refuses gradients on processors, though its plain operations have them.
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *tensors: None)
    row = make_row(share=share)

    def run(attend: Callable[..., Tensor]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(1)

        def random(heads: int) -> Tensor:
            shape = (1, heads, len(row.token_ids), 16)
            return torch.randn(shape, generator=generator, requires_grad=True)

        q, k, v = random(4), random(2), random(2)
        output = attend(q, k, v, 0.25)
        (output * torch.randn(output.shape, generator=generator)).sum().backward()
        found: list[Any] = [output.detach(), q.grad, k.grad, v.grad]
        return found

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        flex = run(FlexAttention(row.segments, CPU))
    for ours, theirs in zip(flex, run(SegmentAttention(row.segments)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_it_is_chosen_by_device() -> None:
    row = make_row(share=True)
    assert isinstance(attention_for(row.segments, CPU), SegmentAttention)
