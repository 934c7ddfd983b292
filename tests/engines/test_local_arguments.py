"""What people hand to the engine is checked at its door, in words."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.engines.local_models import ask, llama, random_ids, running

from agentfly.engines.local import LocalEngine
from agentfly.engines.local.engine import token_ids
from agentfly.engines.vllm import VllmEngine
from agentfly.errors import ConfigError
from agentfly.types import SamplingParams

SHORT = SamplingParams(max_tokens=3)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"stale_cache": "kep"}, "unknown stale_cache 'kep'. Did you mean 'keep'?"),
        ({"stale_cache": None}, "unknown stale_cache 'None'. Known: keep, recompute"),
        ({"max_running": 0}, "max_running must be a whole number of at least 1, got 0"),
        ({"max_running": True}, "max_running must be .* got True"),
        ({"cache_bytes": 0}, "cache_bytes must be a whole number of at least 1, got 0"),
        ({"cache_bytes": 4e9}, "cache_bytes must be .* got 4000000000.0"),
        ({"threads": -1}, "threads must be a whole number of at least 1, got -1"),
        ({"threads": 0}, "threads must be .* got 0"),
        ({"dtype": "bfloat16"}, "got 'bfloat16'. Did you mean torch.bfloat16?"),
        ({"dtype": "autp"}, "got 'autp'. Did you mean 'auto'?"),
        ({"dtype": torch.int8}, "floating-point dtype, got torch.int8"),
    ],
)
def test_options_that_mean_nothing_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LocalEngine(llama(), **option)


def test_the_vllm_engine_knows_its_policies_for_old_keys_too() -> None:
    with pytest.raises(ConfigError, match="unknown stale_cache 'kep'"):
        VllmEngine("http://localhost:1", stale_cache="kep")  # type: ignore[arg-type]


async def test_arrays_of_whole_numbers_are_prompts_like_lists() -> None:
    ids = random_ids(9)
    prompts: list[Any] = [ids, tuple(ids), np.array(ids), np.array(ids, np.uint16)]
    prompts.append(torch.tensor(ids))
    async with running(llama()) as engine:
        completions = [(await ask(engine, prompt, SHORT)).token_ids for prompt in prompts]
    assert len(completions[0]) == 3
    assert completions == [completions[0]] * 5


@pytest.mark.parametrize(
    "prompt",
    [
        [1.5, 2.7],
        [1, 2.0],
        [True, False],
        "12",
        None,
        7,
        [[1, 2]],
        [[1], [2, 3]],
        np.array([1.0]),
        np.zeros((0, 2), np.int64),
        torch.ones(2, requires_grad=True),
        torch.ones((1, 2), dtype=torch.long),
    ],
)
async def test_prompts_that_are_no_flat_whole_numbers_are_refused(prompt: Any) -> None:
    async with running(llama()) as engine:
        with pytest.raises(ConfigError, match="a prompt must be a flat sequence of whole numbers"):
            await ask(engine, prompt, SHORT)


@pytest.mark.parametrize("prompt", [[], (), np.array([], np.int64), torch.empty(0)])
async def test_empty_prompts_are_refused(prompt: Any) -> None:
    async with running(llama()) as engine:
        with pytest.raises(ConfigError, match="at least one token"):
            await ask(engine, prompt, SHORT)


def test_a_prompt_array_may_be_written_to_once_it_was_handed_over() -> None:
    prompt: Any = np.array([3, 1, 4])
    ids = token_ids(prompt, vocabulary=5)
    prompt.fill(0)
    assert ids.tolist() == [3, 1, 4]
