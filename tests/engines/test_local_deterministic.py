"""In deterministic mode the same chains give the same tokens, bit for bit, whatever the timing."""

import asyncio
import random
from typing import Any

import pytest
from tests.engines.local_models import (
    ask,
    family,
    largest_difference,
    llama,
    plain_logprobs,
    random_ids,
    request,
    running,
)

from agentfly.engines.local import LocalEngine
from agentfly.types import (
    Completion,
    SamplingParams,
    SharedTensors,
)

Chains = dict[int, list[Completion]]
BYTES_PER_TOKEN = 512


async def run(model: Any, *, timing: int, deterministic: bool = True, **options: Any) -> Chains:
    """Twelve chains of three turns in groups of four, with tools of random latency between."""
    rng = random.Random(timing)
    async with running(model, deterministic=deterministic, **options) as engine:
        order = list(range(12))
        rng.shuffle(order)
        async with asyncio.TaskGroup() as group:
            tasks = {
                chain: group.create_task(_chain(engine, chain, rng.random() * 0.03, rng))
                for chain in order
            }
    return {chain: tasks[chain].result() for chain in range(12)}


async def _chain(
    engine: LocalEngine, chain: int, delay: float, rng: random.Random
) -> list[Completion]:
    prompt, turns = random_ids(50, seed=chain // 4), []
    for turn in range(3):
        await asyncio.sleep(delay)
        params = SamplingParams(max_tokens=6 + chain + turn, temperature=0.8, top_p=0.95)
        turns.append(await ask(engine, prompt, params, request(chain, turn)))
        prompt = [*prompt, *turns[-1].token_ids, *random_ids(5 + chain, seed=turn)]
        delay = rng.random() * 0.03
    return turns


async def test_the_same_run_twice_with_tools_of_random_latency() -> None:
    model = llama()
    assert await run(model, timing=1) == await run(model, timing=2)


async def test_other_company_evictions_and_recomputation_change_no_bit() -> None:
    model = llama()
    reference = await run(model, timing=1)
    assert await run(model, timing=2, max_running=1, threads=1) == reference
    # Holds about three chains: others are evicted or preempted, and computed anew.
    assert await run(model, timing=3, cache_bytes=400 * BYTES_PER_TOKEN) == reference


@pytest.mark.parametrize("name", ["qwen3", "gpt2"])
async def test_other_models(name: str) -> None:
    model = family()[name]
    assert await run(model, timing=1) == await run(model, timing=2, max_running=3)


async def test_new_weights_in_the_middle_change_no_bit_of_what_is_the_same() -> None:
    """Recomputing keys that were decoded gives the very same keys."""
    model = llama()
    prompt, params = random_ids(40), SamplingParams(max_tokens=60)
    async with running(model, deterministic=True) as engine:
        undisturbed = await ask(engine, prompt, params)
    async with running(model, deterministic=True) as engine, asyncio.TaskGroup() as group:
        task = group.create_task(ask(engine, prompt, params))
        for version in range(1, 4):
            await asyncio.sleep(0.02)
            await engine.publish(SharedTensors(), version)
    assert task.result().logprobs == undisturbed.logprobs
    assert len(task.result().versions) > 1


async def test_deterministic_logprobs_are_right() -> None:
    model = llama()
    first = (await run(model, timing=1))[0][0]
    expected = plain_logprobs(model, random_ids(50, seed=0), first.token_ids, 0.8)
    assert largest_difference(first.logprobs, expected) < 1e-4
