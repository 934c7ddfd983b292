"""Attention over a tree of segments is that of each sequence alone, without masks or copies."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from agentfly.training.learner import attention_kernels, segment_attention
from agentfly.training.learner.attention_kernels import Chunked, Fused, kernel_for
from agentfly.training.learner.pack import PackedRow, Segment, pack
from agentfly.training.learner.segment_attention import SegmentAttention, parts_of
from agentfly.types import Sample

HEADS, GROUPS, WIDTH = 2, 3, 8
SCALE = 0.3
KERNELS = [Fused, Chunked]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_kernels, "CHUNK_BYTES", 4 * HEADS * GROUPS * 40)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = request.param()
    monkeypatch.setattr(segment_attention, "kernel_for", lambda device: found)
    return found


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """One sequence by the formula: HxGxSxD queries, HxTxD keys and values, later ones hidden."""
    scores = torch.einsum("hgsd,htd->hgst", q, k) * SCALE
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.einsum("hgst,htd->hgsd", scores.masked_fill(later, -torch.inf).softmax(-1), v)


def forest() -> tuple[PackedRow, int]:
    """Two groups under one system prompt, one of them with a turn in common, one sample twice."""
    rng = random.Random(1)

    def words(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(9) for _ in range(count))

    system, questions = words(20), [words(17), words(30)]
    first = words(18)
    ends = [
        (*questions[0], *first, *words(5)),
        (*questions[0], *first, *words(9)),
        (*questions[0], *words(7)),
        (*questions[1], *words(3)),
        (*questions[1], *words(25)),
    ]
    sequences = [(*system, *end) for end in [*ends, ends[0]]]
    (row,) = pack([sample(*ids) for ids in sequences], budget=1000)
    return row, sum(map(len, sequences))


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


def inputs(count: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(1, count, heads, WIDTH, generator=generator, dtype=dtype)
        .transpose(1, 2)
        .requires_grad_()
        for heads in (HEADS * GROUPS, HEADS, HEADS)
    ]


def test_a_forest_attends_as_each_of_its_sequences_alone(kernel: Any) -> None:
    row, total = forest()
    count = len(row.token_ids)
    assert count < 0.6 * total, "much is shared"
    assert max(len(segment.before) for segment in row.segments) > 0
    q, k, v = inputs(count)
    output = SegmentAttention(row.segments)(q, k, v, SCALE)[0].transpose(0, 1)
    upstream = torch.randn(output.shape, dtype=output.dtype)
    loss, expected_loss = torch.zeros(()).double(), torch.zeros(()).double()
    for place in row.places:
        at = place.indices()
        expected = dense(q[0, :, at].unflatten(0, (HEADS, GROUPS)), k[0, :, at], v[0, :, at])
        torch.testing.assert_close(output[:, at], expected.flatten(0, 1))
        loss = loss + (output[:, at] * upstream[:, at]).sum()
        expected_loss = expected_loss + (expected.flatten(0, 1) * upstream[:, at]).sum()
    found = torch.autograd.grad(loss, (q, k, v))
    wanted = torch.autograd.grad(expected_loss, (q, k, v))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision_is_near(kernel: Any, dtype: torch.dtype) -> None:
    row, _ = forest()
    exact = inputs(len(row.token_ids))
    cast = [x.detach().to(dtype).requires_grad_() for x in exact]
    attend = SegmentAttention(row.segments)
    results = []
    for given in (exact, cast):
        q, k, v = given
        output = attend(q, k, v, SCALE)
        results.append([output, *torch.autograd.grad(output.sum(), given)])
    for ours, theirs in zip(results[1], results[0], strict=True):
        assert ours.dtype == dtype
        error = (ours.double() - theirs).norm() / theirs.norm()
        assert error < (1e-5 if dtype == torch.float32 else 0.02)


def test_what_autocast_casts_is_cast(kernel: Any) -> None:
    q, k, v = inputs(12, torch.float32)
    segments = [Segment(start=0, end=12)]
    with torch.autocast("cpu", torch.bfloat16):
        found = SegmentAttention(segments)(q, k, v.bfloat16(), SCALE)
    assert found.dtype == torch.bfloat16


def test_rows_that_share_nothing_are_the_same_by_any_kernel() -> None:
    segments = [Segment(start=0, end=5), Segment(start=5, end=12)]
    q, k, v = inputs(12)
    attend = SegmentAttention(segments)
    torch.testing.assert_close(attend(q, k, v, SCALE), attend._apart(q, k, v, SCALE))


def test_a_device_without_a_fused_kernel_has_the_plain_one() -> None:
    assert isinstance(kernel_for(torch.device("cpu")), Fused)
    assert isinstance(kernel_for(torch.device("cuda")), Chunked)


def test_parts_are_one_for_each_segment_and_one_for_each_that_is_shared() -> None:
    row, _ = forest()
    parts = parts_of(row.segments)
    shared = {part.keys.start for part in parts if not part.causal}
    assert [(p.keys.start, p.keys.stop) for p in parts if p.causal] == [
        (s.start, s.end) for s in row.segments
    ]
    assert shared == {
        s.start
        for s in row.segments
        if any(a <= s.start and s.end <= b for t in row.segments for a, b in t.before)
    }


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        made = result if isinstance(result, tuple | list) else [result]
        sizes = [x.untyped_storage().nbytes() // 4 for x in made if isinstance(x, Tensor)]
        self.numbers = max(self.numbers, *sizes, 0)
        return result


def test_memory_grows_with_the_tokens_of_a_row_alone() -> None:
    """No tensor is larger than the queries: neither a mask, nor keys copied for each branch."""
    prompt, branch, branches = 300, 700, 6
    segments = [Segment(start=0, end=prompt)] + [
        Segment(start=prompt + i * branch, end=prompt + (i + 1) * branch, before=((0, prompt),))
        for i in range(branches)
    ]
    count = prompt + branches * branch
    q, k, v = inputs(count, torch.float32)
    largest = Largest()  # type: ignore[no-untyped-call]
    with largest:
        SegmentAttention(segments)(q, k, v, SCALE).sum().backward()
    assert 0 < largest.numbers <= count * HEADS * GROUPS * WIDTH
