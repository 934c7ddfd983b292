"""The learner beside a bare forward-backward loop over the same chains, padded.

2 tasks × 8 chains of SmolLM2: prompts of 400 tokens, 64 to 100 sampled ones. The bare loop pads
each task's chains, computes logits at the sampled positions alone, and neither packs, measures nor
updates anything. Ours is the whole of `LocalLearner.learn`, the optimizer included, with the prompt
of a task computed once and, for comparison, once for each chain. Same weights, dtype and threads;
the sides take turns, and the best round of each counts.

    python -m benchmarks.learner                 # all of it
    python -m benchmarks.learner --model tiny    # for a look
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from agentfly.algorithms import make_algorithm
from agentfly.config import ModelSettings, RunSettings, SourceSettings, TrainSettings
from agentfly.training.learner.body import autocast
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.policy import Policy
from agentfly.types import (
    Completion,
    FinishReason,
    Group,
    Message,
    Score,
    StopReason,
    Task,
    TokenStream,
    Trajectory,
    Turn,
)

TASKS, CHAINS = 2, 8
PROMPT_TOKENS = 400
SAMPLED_TOKENS = (64, 100)
VOCABULARY = 1000
"""Ids that every model has."""
ROUNDS = 2


def workload() -> list[Group]:
    rng = random.Random(0)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(rng.randrange(10, VOCABULARY) for _ in range(length))

    prompts = [ids(PROMPT_TOKENS) for _ in range(TASKS)]
    return [
        Group(
            id=str(task),
            task=Task(id=str(task), messages=()),
            members=tuple(
                trajectory(task, chain, prompts[task], ids(rng.randint(*SAMPLED_TOKENS)))
                for chain in range(CHAINS)
            ),
        )
        for task in range(TASKS)
    ]


def trajectory(
    task: int, chain: int, prompt: tuple[int, ...], sampled: tuple[int, ...]
) -> Trajectory:
    completion = Completion(
        token_ids=sampled,
        logprobs=(-1.0,) * len(sampled),
        versions=((0, len(sampled)),),
        finish_reason=FinishReason.LENGTH,
    )
    turn = Turn(
        index=0,
        context_ids=prompt,
        completion=completion,
        message=Message(role="assistant", content=""),
        temperature=1.0,
    )
    return Trajectory(
        task=Task(id=str(task), messages=()),
        group_id=str(task),
        chain_id=f"{task}/{chain}",
        messages=(),
        streams=(TokenStream(turns=(turn,)),),
        stop=StopReason.ANSWERED,
        score=Score(value=float(chain % 2)),
    )


def bare_loop(policy: Policy, groups: Sequence[Group]) -> None:
    """Forward and backward, one task at a time, as one would write it by hand."""
    model = policy.causal_lm
    for group in groups:
        rows = [member.streams[0].token_ids for member in group.members]
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        sampled = width - PROMPT_TOKENS
        with autocast(model, policy.compute_dtype):
            logits = model(
                input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=sampled + 1
            ).logits
        targets = ids[:, -sampled:].masked_fill(mask[:, -sampled:] == 0, -100)
        loss = cross_entropy(logits[:, :-1].float().flatten(0, 1), targets.flatten())
        loss.backward()
    model.zero_grad(set_to_none=True)


def learner(policy: Policy, *, share: bool) -> LocalLearner:
    settings = RunSettings(
        name="benchmark",
        model=policy.settings,
        # A rate of 0: every round works on the same weights.
        train=TrainSettings(lr=0.0, share_prefixes=share),
        source=(SourceSettings(tasks="none"),),
    )
    return LocalLearner(policy, make_algorithm("grpo"), settings)


def seconds(run: Callable[[], Any]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def measure(model: str = "smollm2-135m-instruct", *, rounds: int = ROUNDS) -> dict[str, float]:
    """Return tokens per second of each side, and the ratios to the bare loop."""
    policy = Policy.load(ModelSettings(name=model, device="cpu"))
    groups = workload()
    tokens = sum(len(m.streams[0].token_ids) for group in groups for m in group.members)
    shared, whole = learner(policy, share=True), learner(policy, share=False)
    sides: dict[str, Callable[[], Any]] = {
        "shared_prefix": lambda: shared.learn(groups),
        "no_sharing": lambda: whole.learn(groups),
        "bare": lambda: bare_loop(policy, groups),
    }
    times = {name: [seconds(run)] for name, run in sides.items()}
    for _ in range(rounds - 1):
        for name, run in sides.items():
            times[name].append(seconds(run))
    rate = {name: tokens / min(taken) for name, taken in times.items()}
    return {
        "learner_vs_bare": rate["no_sharing"] / rate["bare"],
        "learner_vs_bare_shared_prefix": rate["shared_prefix"] / rate["bare"],
        "learner_tokens_per_second": rate["no_sharing"],
        "learner_tokens_per_second_shared_prefix": rate["shared_prefix"],
        "bare_tokens_per_second": rate["bare"],
    }


AIMS = {"learner_vs_bare": "at least 1", "learner_vs_bare_shared_prefix": "at least 2"}


def main() -> None:
    parser = argparse.ArgumentParser(description="the learner beside a bare loop")
    parser.add_argument("--model", default="smollm2-135m-instruct")
    arguments = parser.parse_args()
    for name, value in measure(arguments.model).items():
        aim = f"   aim: {AIMS[name]}" if name in AIMS else ""
        print(f"  {name:42} {value:>9.4g}{aim}")


if __name__ == "__main__":
    main()
