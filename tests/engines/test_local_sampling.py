"""Tokens are drawn from the distribution that was asked for, each from its own seed."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.local_models import (
    VOCABULARY,
    ask,
    llama,
    plain_logprobs,
    random_ids,
    request,
    running,
)
from torch import Tensor

from agentfly.engines.local import LocalEngine, token_sampling
from agentfly.engines.local.token_sampling import Draw, sample, truncate
from agentfly.types import SamplingParams

DRAWS = 2000
ACCEPT = 1e-4
"""A right sampler is rejected once in ten thousand seeds; the seed is fixed."""


def p_value(statistic: float, freedom: int) -> float:
    """The chi-squared distribution's upper tail."""
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def fit(tokens: Sequence[int], probabilities: Tensor) -> float:
    """P-value of the tokens under the probabilities; bins expected below 5 are taken together."""
    counts = torch.bincount(torch.tensor(tokens), minlength=len(probabilities)).double()
    expected = probabilities.double() * len(tokens)
    large = expected >= 5
    observed = torch.cat((counts[large], counts[~large].sum()[None]))
    wanted = torch.cat((expected[large], expected[~large].sum()[None]))
    if wanted[-1] < 5:
        assert observed[-1] <= 20, "tokens were sampled that should hardly ever be"
        observed, wanted = observed[:-1], wanted[:-1]
    return p_value(((observed - wanted) ** 2 / wanted).sum().item(), len(wanted) - 1)


async def draw_many(engine: LocalEngine, prompt: list[int], params: SamplingParams) -> list[int]:
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(engine, prompt, params, request(chain))) for chain in range(DRAWS)
        ]
    return [task.result().token_ids[0] for task in tasks]


def sharp() -> Any:
    """A model whose distribution is so uneven that a wrong temperature shows soon."""
    model = llama()
    with torch.no_grad():
        model.lm_head.weight.mul_(1.7)
    return model


async def test_chi_squared_accepts_the_engine_and_rejects_what_is_wrong() -> None:
    model = sharp()
    prompt = random_ids(12)
    logprobs = [plain_logprobs(model, prompt, [token])[0] for token in range(VOCABULARY)]
    untruncated = torch.tensor(logprobs).exp()
    hotter = torch.softmax(torch.tensor(logprobs) / 1.1, -1)
    nucleus = truncate(untruncated[None], [SamplingParams(top_p=0.9)])[0]
    async with running(model, max_running=500) as engine:
        right = await draw_many(engine, prompt, SamplingParams(max_tokens=1))
        hot = await draw_many(engine, prompt, SamplingParams(max_tokens=1, temperature=1.1))
        leaked = await draw_many(engine, prompt, SamplingParams(max_tokens=1, top_p=0.9))
    assert fit(right, untruncated) > ACCEPT
    assert fit(hot, hotter) > ACCEPT
    assert fit(leaked, nucleus / nucleus.sum()) > ACCEPT
    assert fit(hot, untruncated) < ACCEPT
    assert fit(leaked, untruncated) < ACCEPT
    kinds = torch.tensor(right) % 4
    assert independence(kinds[0::2], kinds[1::2]) > ACCEPT, "siblings of a group are independent"
    assert independence(kinds[0::2], kinds[0::2]) < ACCEPT


def independence(a: Tensor, b: Tensor) -> float:
    table = torch.bincount(a * 4 + b, minlength=16).view(4, 4).double()
    expected = table.sum(1, keepdim=True) * table.sum(0, keepdim=True) / table.sum()
    return p_value(((table - expected) ** 2 / expected).sum().item(), 9)


async def test_a_seed_gives_the_same_tokens_alone_and_in_company() -> None:
    model = llama()
    prompt = random_ids(20)
    params = SamplingParams(max_tokens=12)
    async with running(model) as engine:
        alone = await ask(engine, prompt, params, request("x"))
    async with running(model) as engine, asyncio.TaskGroup() as group:
        others = [group.create_task(ask(engine, prompt, params, request(i))) for i in range(5)]
        same = group.create_task(ask(engine, prompt, params, request("x")))
    assert same.result().token_ids == alone.token_ids
    assert len({task.result().token_ids for task in others}) == 5


def test_truncation_by_hand() -> None:
    weights = torch.tensor([[0.1, 0.4, 0.2, 0.3]])

    def kept(**params: float) -> list[int]:
        left = truncate(weights, [SamplingParams(**params)])[0]  # type: ignore[arg-type]
        return left.nonzero().flatten().tolist()

    assert kept(top_k=2) == [1, 3]
    assert kept(top_p=0.4) == [1]
    assert kept(top_p=0.45) == [1, 3]
    assert kept(min_p=0.6) == [1, 3]
    assert kept(top_p=0.99) == [0, 1, 2, 3]
    # Of the mass 0.7 that top_k leaves, 0.4 is less than 0.65: the second stays.
    assert kept(top_k=2, top_p=0.65) == [1, 3]
    assert kept(top_k=2, top_p=0.55) == [1]


@given(
    logits=st.lists(st.floats(-8, 8, width=32), min_size=5, max_size=40),
    top_p=st.floats(0.05, 1),
    top_k=st.integers(0, 50),
    min_p=st.floats(0, 1),
)
def test_few_candidates_truncate_like_all_of_them(
    logits: list[float], top_p: float, top_k: int, min_p: float
) -> None:
    weights = torch.tensor([logits]).softmax(-1)
    params = [SamplingParams(top_p=top_p, top_k=top_k, min_p=min_p)]
    whole = truncate(weights, params)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(token_sampling, "CANDIDATES", 4)
        few = truncate(weights, params)
    assert torch.equal(whole, few)
    assert whole.max() == weights.max()


@pytest.mark.parametrize("candidates", [4, 1024])
def test_of_equal_weights_the_lower_ids_stay(
    candidates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_sampling, "CANDIDATES", candidates)
    # With four candidates, two of the four 0.2 are left out: top_k=4 can't be told from these.
    weights = torch.tensor([[0.1, 0.2, 0.3, 0.2, 0.3, 0.2, 0.2, 0.1]])
    left = [truncate(weights, [SamplingParams(top_k=k)])[0].nonzero().flatten() for k in (1, 2, 4)]
    assert [ids.tolist() for ids in left] == [[2], [2, 4], [1, 2, 3, 4]]


def test_a_row_is_truncated_alone_as_beside_one_that_needs_a_full_sort() -> None:
    # Rounded to bfloat16, most logits have equals.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3000, generator=generator).mul(2).bfloat16().float()
    logits[1] = 0.0
    mine, flat = SamplingParams(top_k=50), SamplingParams(top_p=0.9999)
    alone = [sample(logits[:1], [Draw(mine, i / 100)])[0] for i in range(100)]
    beside = [sample(logits, [Draw(mine, i / 100), Draw(flat, 0.5)])[0] for i in range(100)]
    assert len({sampled.token_id for sampled in alone}) > 20
    assert beside == alone


@pytest.mark.parametrize("temperature", [1e-6, 1e-39, 1e-320])
def test_the_coldest_temperatures_take_the_likeliest_token(temperature: float) -> None:
    logits = torch.tensor([[1.0, 30.0, 29.0]])
    sampled = sample(logits, [Draw(SamplingParams(temperature=temperature), 0.9)])[0]
    assert (sampled.token_id, sampled.logprob) == (1, 0.0)


@given(
    weights=st.lists(st.sampled_from([0.0, 1e-30, 0.5, 1.0]), min_size=1, max_size=600),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_the_quantile_is_found_and_never_a_token_without_weight(
    weights: list[float], uniform: float
) -> None:
    weights[0] = 1.0
    logits = torch.tensor([weights]).log()
    chosen = sample(logits, [Draw(SamplingParams(), uniform)])[0].token_id
    assert weights[chosen] > 0
    total = sum(weights)
    below, above = sum(weights[:chosen]) / total, sum(weights[: chosen + 1]) / total
    assert below - 1e-5 <= uniform <= above + 1e-5


def test_greedy_rows_and_drawn_rows_share_a_batch() -> None:
    logits = torch.tensor([[0.0, 2.0, 1.0]] * 3)
    draws = [
        Draw(SamplingParams(temperature=0), 0.0),
        Draw(SamplingParams(), 0.0),
        Draw(SamplingParams(temperature=2), 0.999),
    ]
    sampled = sample(logits, draws)
    assert [s.token_id for s in sampled] == [1, 0, 2]
    expected = [
        logits[0].log_softmax(-1)[1],
        logits[0].log_softmax(-1)[0],
        (logits[0] / 2).log_softmax(-1)[2],
    ]
    assert [s.logprob for s in sampled] == pytest.approx([e.item() for e in expected], abs=1e-6)
