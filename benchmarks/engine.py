"""The local engine beside plain `model.generate`, on multi-turn chains that share prompts.

64 chains of 3 turns in groups of 8: each group has a prompt of 200 tokens, each turn a length of
its own, and 10 to 40 tokens (a tool's answer) come between turns. `generate` gets the whole
conversation of all chains at every turn, padded on the left, and stops when the last row is done;
the engine gets each chain's turns as they come. Same weights, same dtype, temperature 1, the same
lengths; each side in a process of its own. Tokens per second count the tokens that were asked for.

    python -m benchmarks.engine                              # all of it, written to results/
    python -m benchmarks.engine --chains 16 --models tiny    # a part of it, for a look
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import asyncio
import multiprocessing
import random
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from benchmarks.report import report

from agentfly.engines.local import LocalEngine
from agentfly.models import load_model, resolve_model
from agentfly.types import Request, SamplingParams, Seed

MODELS = {"smollm2": "smollm2-135m-instruct", "tiny": "tiny"}
CHAINS = 64
BUSY_CHAINS = 16
"""Beside a busy process everything takes several times as long."""
TURNS = 3
GROUP = 8
PROMPT_TOKENS = 200
VOCABULARY = 1000
"""Ids that every model has."""

hf: Any = transformers


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """What a chain is asked, how much it says in each turn, and what it hears in between."""

    index: int
    prompt: list[int]
    lengths: list[int]
    replies: list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One side's result."""

    tokens_per_second: float
    peak_mb: float
    note: str


def workload(count: int) -> list[Chain]:
    rng = random.Random(0)

    def ids(length: int) -> list[int]:
        return [rng.randrange(10, VOCABULARY) for _ in range(length)]

    prompts = [ids(PROMPT_TOKENS) for _ in range(-(-count // GROUP))]
    return [
        Chain(
            index=index,
            prompt=prompts[index // GROUP],
            lengths=[rng.randint(4, 32) for _ in range(TURNS)],
            replies=[ids(rng.randint(10, 40)) for _ in range(TURNS)],
        )
        for index in range(count)
    ]


def load(name: str) -> Any:
    return load_model(resolve_model(MODELS[name]), dtype=torch.float32, device="cpu")


def measured(chains: list[Chain], run: Callable[[], str]) -> Measured:
    started = time.perf_counter()
    note = run()
    seconds = time.perf_counter() - started
    tokens = sum(sum(chain.lengths) for chain in chains)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(tokens_per_second=tokens / seconds, peak_mb=peak, note=note)


def with_engine(name: str, chains: list[Chain]) -> Measured:
    model = load(name)
    return measured(chains, lambda: asyncio.run(sample_all(LocalEngine(model), chains)))


async def sample_all(engine: LocalEngine, chains: list[Chain]) -> str:
    async with asyncio.TaskGroup() as group:
        for chain in chains:
            group.create_task(sample_turns(engine, chain))
    counters = engine.counters
    await engine.close()
    return f"prefilled {counters['prefilled_tokens']}, reused {counters['reused_tokens']}"


async def sample_turns(engine: LocalEngine, chain: Chain) -> None:
    ids = list(chain.prompt)
    for turn, (length, reply) in enumerate(zip(chain.lengths, chain.replies, strict=True)):
        who = Request(
            chain_id=str(chain.index),
            group_id=str(chain.index // GROUP),
            turn=turn,
            seed=Seed(0).child(chain.index, turn),
        )
        completion = await engine.sample(
            ids, SamplingParams(max_tokens=length), request=who, deadline=float("inf")
        )
        assert len(completion.token_ids) == length
        ids += [*completion.token_ids, *reply]


def with_generate(name: str, chains: list[Chain], threads: int) -> Measured:
    torch.set_num_threads(threads)
    model = load(name)
    return measured(chains, lambda: generate_all(model, chains))


def generate_all(model: Any, chains: list[Chain]) -> str:
    histories = [list(chain.prompt) for chain in chains]
    prefilled = 0
    for turn in range(TURNS):
        lengths = [chain.lengths[turn] for chain in chains]
        prefilled += sum(map(len, histories))
        for history, new in zip(histories, generate(model, histories, lengths), strict=True):
            history += new
        for history, chain in zip(histories, chains, strict=True):
            history += chain.replies[turn]
    return f"prefilled {prefilled}"


def generate(model: Any, histories: list[list[int]], lengths: list[int]) -> list[list[int]]:
    width = max(map(len, histories))
    padded = torch.tensor([[0] * (width - len(ids)) + ids for ids in histories])
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in histories])
    wanted = torch.tensor(lengths)

    def done(ids: torch.Tensor, scores: torch.Tensor, **_: object) -> torch.Tensor:
        return ids.shape[1] - width >= wanted

    sampling = hf.GenerationConfig(
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        max_new_tokens=max(lengths),
        pad_token_id=0,
        eos_token_id=None,
    )
    output = model.generate(
        padded, attention_mask=mask, generation_config=sampling, stopping_criteria=[done]
    )
    rows = output[:, width:].tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def spin() -> None:
    while True:
        pass


@contextmanager
def busy_process() -> Iterator[None]:
    """Another process that wants a core all the time, as tools and environments do."""
    process = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def alone(run: Callable[..., Measured], *arguments: object) -> Measured:
    """Run in a fresh process, so that memory is its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run, *arguments).result()


def compare(name: str, chains: list[Chain], label: str) -> tuple[float, Measured]:
    """Print both sides; `generate` gets the number of threads that suits it best."""
    ours = alone(with_engine, name, chains)
    counts = {torch.get_num_threads()} | ({1} if name == "tiny" else set())
    theirs = max(
        (alone(with_generate, name, chains, count) for count in sorted(counts)),
        key=lambda side: side.tokens_per_second,
    )
    speedup = ours.tokens_per_second / theirs.tokens_per_second
    for side, result in (("local", ours), ("generate", theirs)):
        rate, peak = f"{result.tokens_per_second:8.1f} tokens/s", f"{result.peak_mb:7.0f} MB"
        print(f"  {label:14} {side:9} {rate} {peak}   {result.note}", flush=True)
    print(f"  {label:14} {speedup:.2f}x", flush=True)
    return speedup, ours


def main() -> None:
    parser = argparse.ArgumentParser(description="the local engine beside model.generate")
    parser.add_argument("--chains", type=int, default=CHAINS)
    parser.add_argument("--models", nargs="+", choices=[*MODELS], default=["tiny", "smollm2"])
    arguments = parser.parse_args()
    chains = workload(arguments.chains)
    numbers: dict[str, float] = {}
    for name in arguments.models:
        numbers[f"{name}_speedup"], side = compare(name, chains, name)
        numbers[f"{name}_tokens_per_second"] = side.tokens_per_second
        numbers["peak_mb"] = max(numbers.get("peak_mb", 0.0), side.peak_mb)
    if "smollm2" in arguments.models:
        with busy_process():
            numbers["smollm2_speedup_busy"], _ = compare(
                "smollm2", chains[:BUSY_CHAINS], "smollm2, busy"
            )
    if arguments.chains == CHAINS and len(arguments.models) == len(MODELS):
        aims = {"smollm2_speedup": "at least 2", "tiny_speedup": "at least 1"}
        report("engine", numbers, aims=aims)


if __name__ == "__main__":
    main()
