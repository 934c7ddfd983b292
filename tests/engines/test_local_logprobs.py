"""The engine's log-probabilities are those of a plain forward pass of the same module."""

import asyncio
from typing import Any

import pytest
import torch
from tests.engines.local_models import (
    PieceTokenizer,
    ask,
    family,
    largest_difference,
    llama,
    named,
    plain_logprobs,
    random_ids,
    request,
    running,
)
from transformers import DynamicCache

from agentfly.engines.local import LocalEngine, shards
from agentfly.types import (
    Completion,
    SamplingParams,
    SharedTensors,
)

CLOSE = 1e-4

MIXED = (
    SamplingParams(max_tokens=9),
    SamplingParams(max_tokens=30, temperature=0.7, top_p=0.8),
    SamplingParams(max_tokens=17, temperature=1.3, top_k=20),
    SamplingParams(max_tokens=25, temperature=0),
    SamplingParams(max_tokens=12, temperature=0.9, min_p=0.05, stop=("stop", "e", "b")),
    SamplingParams(max_tokens=40, top_p=0.9, top_k=50, min_p=0.01, stop_token_ids=(7, 9, 11)),
)
LENGTHS = (1, 170, 33, 64, 290, 5)


@pytest.mark.parametrize("name", sorted(family()))
async def test_ragged_batch_of_mixed_parameters_over_three_turns(name: str) -> None:
    model = family()[name]
    async with running(model, PieceTokenizer()) as engine:
        async with asyncio.TaskGroup() as group:
            chains = [
                group.create_task(_three_turns(engine, random_ids(length, seed=i), params, i))
                for i, (length, params) in enumerate(zip(LENGTHS, MIXED, strict=True))
            ]
        assert engine.counters["reused_tokens"] > 1000
    for chain, params in zip(chains, MIXED, strict=True):
        for prompt, completion in chain.result():
            expected = plain_logprobs(model, prompt, completion.token_ids, params.temperature)
            assert largest_difference(completion.logprobs, expected) < CLOSE


async def test_a_step_cut_into_shards_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "MIN_SHARD_WORK", 1.0)
    model = llama()
    prompts = [random_ids(5 + 20 * i, seed=i) for i in range(9)]
    async with running(model, threads=4) as engine, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(engine, prompt, SamplingParams(max_tokens=9), request(i)))
            for i, prompt in enumerate(prompts)
        ]
    for prompt, task in zip(prompts, tasks, strict=True):
        expected = plain_logprobs(model, prompt, task.result().token_ids)
        assert largest_difference(task.result().logprobs, expected) < CLOSE


async def _three_turns(
    engine: LocalEngine, prompt: list[int], params: SamplingParams, chain: int
) -> list[tuple[list[int], Completion]]:
    turns = []
    for turn in range(3):
        completion = await ask(engine, prompt, params, request(chain, turn))
        turns.append((prompt, completion))
        prompt = [*prompt, *completion.token_ids, *random_ids(11 + chain, seed=100 * turn + chain)]
    return turns


async def test_long_prompts_are_prefilled_in_chunks_with_equal_logprobs() -> None:
    model = llama()
    prompt = random_ids(700, seed=3)
    async with running(model) as engine:
        completion = await ask(engine, prompt, SamplingParams(max_tokens=8))
        assert engine.counters["prefilled_tokens"] == 700
        assert engine.counters["steps"] == 6 + 7  # chunks of 128, then one token at a time
    expected = plain_logprobs(model, prompt, completion.token_ids)
    assert largest_difference(completion.logprobs, expected) < CLOSE


async def test_a_bfloat16_copy_follows_the_float32_module() -> None:
    model = llama()
    prompt = random_ids(40)
    async with running(model, dtype=torch.bfloat16, stale_cache="recompute") as engine:
        first = await ask(engine, prompt, SamplingParams(max_tokens=12))
        other = llama(seed=5)
        model.load_state_dict(other.state_dict())
        await engine.publish(SharedTensors(), version=1)
        second = await ask(engine, prompt, SamplingParams(max_tokens=12))
    assert model.dtype == torch.float32
    before = plain_logprobs(llama().bfloat16(), prompt, first.token_ids)
    after = plain_logprobs(llama(seed=5).bfloat16(), prompt, second.token_ids)
    assert largest_difference(first.logprobs, before) < 0.2
    assert largest_difference(second.logprobs, after) < 0.2
    wrong = plain_logprobs(llama().bfloat16(), prompt, second.token_ids)
    assert largest_difference(second.logprobs, wrong) > 0.5


@pytest.mark.parametrize("policy", ["recompute", "keep"])
async def test_weights_swapped_in_the_middle_of_completions(policy: str) -> None:
    model = llama()
    versions = [llama(seed=seed) for seed in (0, 1, 2)]
    prompts = [random_ids(length, seed=length) for length in (20, 45, 3)]
    async with running(model, stale_cache=policy) as engine:
        completions = await _swap_twice(engine, prompts, versions)
    for prompt, completion in zip(prompts, completions, strict=True):
        assert [version for version, _ in completion.versions] == [0, 1, 2]
        recomputed = _under_own_version(versions, prompt, completion)
        kept = _with_kept_keys(versions, prompt, completion)
        stated, other = (recomputed, kept) if policy == "recompute" else (kept, recomputed)
        assert largest_difference(completion.logprobs, stated) < CLOSE
        assert largest_difference(completion.logprobs, other) > 0.01


async def _swap_twice(
    engine: LocalEngine, prompts: list[list[int]], versions: list[Any]
) -> list[Completion]:
    counts = [0] * len(prompts)
    moved = asyncio.Event()

    def count(chain: int) -> None:
        counts[chain] += 1
        moved.set()

    async def until(tokens: int) -> None:
        while min(counts) < tokens:
            moved.clear()
            await moved.wait()

    params = SamplingParams(max_tokens=100)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                ask(engine, prompt, params, request(i), lambda *_, chain=i: count(chain))
            )
            for i, prompt in enumerate(prompts)
        ]
        await until(4)
        await engine.publish(named(versions[1].state_dict()), version=1)
        await until(min(counts) + 4)
        async with engine.paused():
            await engine.publish(named(versions[2].state_dict()), version=2)
    return [task.result() for task in tasks]


def _under_own_version(
    versions: list[Any], prompt: list[int], completion: Completion
) -> list[float]:
    tables = [plain_logprobs(model, prompt, completion.token_ids) for model in versions]
    return [tables[version][i] for i, version in enumerate(completion.version_of_each())]


@torch.no_grad()
def _with_kept_keys(versions: list[Any], prompt: list[int], completion: Completion) -> list[float]:
    """Each position's keys come from the weights under which the token after it was sampled."""
    cache = DynamicCache(config=versions[0].config)
    pending, logprobs = prompt, []
    for token, version in zip(completion.token_ids, completion.version_of_each(), strict=True):
        output = versions[version](
            input_ids=torch.tensor([pending]), past_key_values=cache, use_cache=True
        )
        logprobs.append(output.logits[0, -1].log_softmax(-1)[token].item())
        pending = [token]
    return logprobs


async def test_the_learners_own_module_is_sampled_after_an_update_in_place() -> None:
    model = llama()
    prompt = random_ids(30)
    async with running(model) as engine:
        await ask(engine, prompt, SamplingParams(max_tokens=4))
        async with engine.paused():
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1.05)
            await engine.publish(SharedTensors(), version=3)
        completion = await ask(engine, prompt, SamplingParams(max_tokens=12))
    assert completion.versions == ((3, 12),)
    expected = plain_logprobs(model, prompt, completion.token_ids)
    assert largest_difference(completion.logprobs, expected) < CLOSE


async def test_a_module_in_training_mode_is_sampled_without_dropout_and_stays_in_it() -> None:
    model = llama(attention_dropout=0.5).train()
    prompt = random_ids(30)
    async with running(model) as engine:
        completion = await ask(engine, prompt, SamplingParams(max_tokens=12))
    assert model.training
    expected = plain_logprobs(model.eval(), prompt, completion.token_ids)
    assert largest_difference(completion.logprobs, expected) < CLOSE
