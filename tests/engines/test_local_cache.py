"""Prefix reuse, proven by counting, and memory that stays within its bound."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.engines.local_models import (
    ask,
    largest_difference,
    llama,
    plain_logprobs,
    random_ids,
    request,
    running,
)

from agentfly.engines.local import LocalEngine
from agentfly.engines.local.key_values import CacheShape, KeyValues, common_prefix
from agentfly.engines.local.kv_cache import PrefixIndex
from agentfly.errors import EngineError
from agentfly.types import Completion, SamplingParams

BYTES_PER_TOKEN = 2 * 2 * 2 * 16 * 4
"""Keys and values, layers, heads, width, bytes of a float32."""


async def test_turn_two_prefills_only_the_new_suffix() -> None:
    async with running(llama()) as engine:
        prompt = random_ids(100)
        first = await ask(engine, prompt, SamplingParams(max_tokens=20), request("c", 0))
        assert engine.counters["prefilled_tokens"] == 100
        suffix = random_ids(15, seed=9)
        longer = [*prompt, *first.token_ids, *suffix]
        await ask(engine, longer, SamplingParams(max_tokens=20), request("c", 1))
        # The token sampled last has not been through the model yet.
        assert engine.counters["prefilled_tokens"] == 100 + 1 + 15
        assert engine.counters["reused_tokens"] == 100 + 19


async def test_a_group_prefills_its_prompt_once() -> None:
    prompt = random_ids(200)
    async with running(llama()) as engine:
        completions = await _siblings(engine, prompt, 8)
        # Each sibling but the first computes the prompt's last token, whose logits it needs.
        assert engine.counters["prefilled_tokens"] == 200 + 7
        assert engine.counters["reused_tokens"] == 7 * 199
        assert engine.counters["decoded_tokens"] == sum(len(c.token_ids) for c in completions)


async def _siblings(engine: LocalEngine, prompt: list[int], count: int) -> list[Completion]:
    params = SamplingParams(max_tokens=5)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(engine, prompt, params, request(i))) for i in range(count)]
    return [task.result() for task in tasks]


async def test_siblings_whose_first_is_cancelled_still_get_their_prompt() -> None:
    model, prompt = llama(), random_ids(900)
    async with running(model) as engine:
        params = SamplingParams(max_tokens=5)
        async with asyncio.TaskGroup() as group:
            first = group.create_task(ask(engine, prompt, params, request("first")))
            second = group.create_task(ask(engine, prompt, params, request("second")))
            await asyncio.sleep(0.01)
            first.cancel()
    completion = second.result()
    expected = plain_logprobs(model, prompt, completion.token_ids)
    assert largest_difference(completion.logprobs, expected) < 1e-4


async def test_a_history_that_was_rewritten_is_reused_up_to_the_change() -> None:
    async with running(llama()) as engine:
        prompt = random_ids(100)
        await ask(engine, prompt, SamplingParams(max_tokens=5), request("c", 0))
        rewritten = [*prompt[:60], *random_ids(40, seed=5)]
        await ask(engine, rewritten, SamplingParams(max_tokens=5), request("c", 1))
        assert engine.counters["reused_tokens"] == common_prefix(
            np.array(prompt), np.array(rewritten)
        )


async def test_the_least_recently_used_idle_chain_is_evicted_by_need() -> None:
    # Three chains of 100 + 10 tokens fit, a fourth doesn't.
    async with running(llama(), cache_bytes=350 * BYTES_PER_TOKEN) as engine:
        params = SamplingParams(max_tokens=10)
        prompts = {name: random_ids(100, seed=i) for i, name in enumerate("abcd")}

        async def visit(name: str) -> int:
            before = engine.counters["prefilled_tokens"]
            await ask(engine, prompts[name], params, request(name))
            return engine.counters["prefilled_tokens"] - before

        assert [await visit(name) for name in "abc"] == [100, 100, 100]
        assert await visit("a") == 1
        assert engine.counters["evictions"] == 0
        assert await visit("d") == 100
        assert engine.counters["evictions"] == 1
        assert await visit("a") == 1, "used after b"
        assert await visit("b") == 100, "evicted"
        assert engine.counters["peak_cache_bytes"] <= 350 * BYTES_PER_TOKEN


async def test_running_chains_share_a_memory_that_holds_few_of_them() -> None:
    model = llama()
    prompts = [random_ids(40, seed=i) for i in range(8)]
    # Two of them fit at their full length of 240, more at the beginning.
    async with running(model, cache_bytes=500 * BYTES_PER_TOKEN) as engine:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(ask(engine, p, SamplingParams(max_tokens=200), request(i)))
                for i, p in enumerate(prompts)
            ]
        assert engine.counters["preemptions"] > 0
        assert engine.counters["peak_cache_bytes"] <= 500 * BYTES_PER_TOKEN
    for prompt, task in zip(prompts, tasks, strict=True):
        completion = task.result()
        assert len(completion.token_ids) == 200
        expected = plain_logprobs(model, prompt, completion.token_ids)
        assert largest_difference(completion.logprobs, expected) < 1e-4


async def test_a_request_too_large_for_the_memory_says_so() -> None:
    async with running(llama(), cache_bytes=100 * BYTES_PER_TOKEN) as engine:
        with pytest.raises(EngineError, match=r"may take 110 tokens, and the cache holds 100"):
            await ask(engine, random_ids(60), SamplingParams(max_tokens=50))
        completion = await ask(engine, random_ids(60), SamplingParams(max_tokens=40))
        assert len(completion.token_ids) == 40


async def test_sampling_ends_with_the_models_context() -> None:
    async with running(llama(max_position_embeddings=64)) as engine:
        completion = await ask(engine, random_ids(60), SamplingParams(max_tokens=50))
        assert len(completion.token_ids) == 4
        with pytest.raises(EngineError, match="context holds 64"):
            await ask(engine, random_ids(64), SamplingParams(max_tokens=50))


async def test_lower_priority_numbers_go_first() -> None:
    done: list[str] = []

    async def run(engine: LocalEngine, name: str, priority: int) -> None:
        who = replace(request(name), priority=priority)
        await ask(engine, random_ids(20, seed=priority), SamplingParams(max_tokens=8), who)
        done.append(name)

    async with (
        running(llama(), max_running=1) as engine,
        asyncio.TaskGroup() as group,
        engine.paused(),
    ):
        for name, priority in (("late", 5), ("soon", 0), ("middle", 2)):
            group.create_task(run(engine, name, priority))
        await asyncio.sleep(0.01)
    assert done == ["soon", "middle", "late"]


def test_the_index_finds_the_longest_beginning() -> None:
    shape = CacheShape(layers=1, heads=1, width=2, dtype=torch.float32, device=torch.device("cpu"))
    index = PrefixIndex()
    sequences = []
    for name, ids in {"a": range(40), "b": [*range(20), *range(90, 110)], "c": [5] * 30}.items():
        sequence = KeyValues(shape, name, np.array(list(ids)), capacity=64)
        index.add(sequence)
        sequences.append(sequence)
    found = index.find(np.array([*range(21), 7, 7, 7]))
    assert found is not None
    assert (found.source.chain_id, found.length, found.ready) == ("a", 21, 0)
    index.remove(sequences[0])
    found = index.find(np.array([*range(21), 7, 7, 7]))
    assert found is not None
    assert (found.source.chain_id, found.length) == ("b", 20)
    assert index.find(np.array([6] * 30)) is None
    whole = index.find(np.array([5] * 30))
    assert whole is not None
    assert whole.length == 29, "the last token's logits are wanted"
