"""Share of held-out calculator questions solved at temperature 1: call, result, answer."""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from agentfly.models.tiny.arithmetic import Problem, evaluate, held_out_problem
from agentfly.models.tiny.conversation import SYSTEM_PROMPTS, replies, user
from agentfly.models.tiny.tool_schemas import PRODUCT_CALCULATOR

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

_CALL = re.compile(
    r"(?:<think>.*</think>\n)?<tool_call>\n(.*?)\n</tool_call><\|im_end\|>", re.DOTALL
)
_CALL_TOKENS, _ANSWER_TOKENS = 48, 16
_BATCH = 128


def solve_rate(
    model: "LlamaForCausalLM", tokenizer: "PreTrainedTokenizerBase", *, questions: int, seed: int
) -> float:
    """Return the share solved, each question asked once."""
    import torch

    rng = Random(seed)
    problems = [held_out_problem(rng) for _ in range(questions)]
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        torch.manual_seed(seed)
        solved = 0
        for start in range(0, questions, _BATCH):
            solved += _solved(model, tokenizer, problems[start : start + _BATCH], rng)
    return solved / questions


def _solved(
    model: "LlamaForCausalLM",
    tokenizer: "PreTrainedTokenizerBase",
    problems: Sequence[Problem],
    rng: Random,
) -> int:
    prompts = [_prompt(problem, tokenizer, rng) for problem in problems]
    called = _sample(model, tokenizer, prompts, _CALL_TOKENS)
    going = [
        (problem, prompt + call + _observation(tokenizer, result))
        for problem, prompt, call in zip(problems, prompts, called, strict=True)
        if (result := called_result(call)) is not None
    ]
    if not going:
        return 0
    answers = _sample(model, tokenizer, [prompt for _, prompt in going], _ANSWER_TOKENS)
    pairs = zip((problem for problem, _ in going), answers, strict=True)
    return sum(re.findall(r"-?\d+", text)[-1:] == [problem.value] for problem, text in pairs)


def called_result(text: str) -> str | None:
    """Run the one call that a completion makes of the calculator, if it does so properly."""
    found = _CALL.fullmatch(text)
    try:
        call: Any = json.loads(found[1]) if found else {}
        return evaluate(call["arguments"]["expression"]) if call["name"] == "calculator" else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _prompt(problem: Problem, tokenizer: "PreTrainedTokenizerBase", rng: Random) -> str:
    system = {"role": "system", "content": rng.choice(SYSTEM_PROMPTS)}
    return str(
        tokenizer.apply_chat_template(
            [system, user(problem.question)],
            tools=[PRODUCT_CALCULATOR],
            add_generation_prompt=True,
            tokenize=False,
        )
    )


def _observation(tokenizer: "PreTrainedTokenizerBase", result: str) -> str:
    message = [replies("calculator", result)]
    return "\n" + str(
        tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    )


def _sample(
    model: "LlamaForCausalLM",
    tokenizer: "PreTrainedTokenizerBase",
    prompts: Sequence[str],
    tokens: int,
) -> list[str]:
    inputs = tokenizer(list(prompts), return_tensors="pt", padding=True, padding_side="left")
    generate: Any = model.generate
    output = generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=tokens,
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
    )
    texts = tokenizer.batch_decode(output[:, inputs["input_ids"].shape[1] :])
    return [text.replace(str(tokenizer.pad_token), "") for text in texts]
