"""Greedy output is what `model.generate` gives, token for token."""

import asyncio

import torch
from tests.engines.local_models import ask, llama, random_ids, request, running

from agentfly.types import FinishReason, SamplingParams

NEW_TOKENS = 10


async def test_greedy_equals_generate_over_fifty_prompts() -> None:
    model = llama()
    prompts = [random_ids(1 + 7 * i, seed=i) for i in range(50)]
    params = SamplingParams(temperature=0, max_tokens=NEW_TOKENS, stop_token_ids=(2,))
    async with running(model) as engine, asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(ask(engine, prompt, params, request(i)))
            for i, prompt in enumerate(prompts)
        ]
    for prompt, task in zip(prompts, tasks, strict=True):
        expected = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            eos_token_id=2,
            pad_token_id=0,
        )
        completion = task.result()
        assert list(completion.token_ids) == expected[0, len(prompt) :].tolist()
        ended = completion.token_ids[-1] == 2
        assert completion.finish_reason is (FinishReason.STOP if ended else FinishReason.LENGTH)
