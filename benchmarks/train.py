"""A whole GRPO step beside `trl`'s, and the learner beside a bare forward and backward pass.

Both trainers get SmolLM2-135M in float32 with the same template, tool, questions and reward:
2 tasks of 8 chains, prompts of about 400 tokens (the tool's schema included), completions held at
64 tokens, one update, no KL, no gradient checkpointing, the same threads. Each side runs in a
process of its own, one after the other, and the first step of each is not counted. `trl` runs with
its plain generation and with its continuous batching; its better time counts.

    python -m benchmarks.train                  # all of it, written to results/
    python -m benchmarks.train --only ours      # one side, for a look
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import logging
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.report import report

MODEL = "smollm2-135m-instruct"
TASKS, CHAINS, TOKENS = 2, 8, 64
STEPS = 2
"""The first one warms up, and is not counted."""
UNUSED_TOKEN = 3
"""A reserved token of SmolLM2, named as the end so that no completion ends early."""
QUESTIONS = ("What is 48 times 37?", "How much is 815 minus 278, divided by 3?")
PADDING = (
    "You are a careful assistant. You can call a calculator, and you should do so whenever a "
    "number has to be worked out. Think about which expression gives the answer, call the "
    "calculator with this expression, read its result, and answer in one short sentence. "
)
SYSTEM = PADDING * 3
"""Long enough that a prompt has about 400 tokens."""


AIMS = {
    "step_speedup_vs_trl": "at least 3",
    "learner_vs_bare": "at least 1",
    "learner_vs_bare_shared_prefix": "at least 2",
}


def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression.

    Args:
        expression: Numbers with + - * / and parentheses, for example 12*(3+4).

    Returns:
        The value.
    """
    from agentfly.tools.builtin import calculate

    return str(calculate(expression))


def vowels(text: str) -> float:
    """Score by letters, so that the chains of a group always differ and none is left out."""
    return sum(letter in "aeiou" for letter in text) / (1 + len(text))


def template() -> str:
    """Return a template with tools that both sides know, from the installed trl."""
    spec = find_spec("trl")
    if spec is None or spec.origin is None:
        raise SystemExit("trl is missing: run `make install`")
    folder = Path(spec.origin).parent / "chat_templates"
    return (folder / "qwen3.jinja").read_text(encoding="utf-8")


def messages(question: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def peer_step(continuous_batching: bool) -> dict[str, float]:  # noqa: FBT001 - crosses processes
    """Return the seconds of a step of trl's GRPOTrainer, by phase."""
    import torch
    import transformers
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from agentfly.models import resolve_model

    _quiet()
    folder = str(resolve_model(MODEL))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = template()
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    begun: list[float] = []
    ended: list[float] = []
    generated: list[float] = []

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, *_: object, **__: object) -> None:
            begun.append(time.perf_counter())

        def on_step_end(self, *_: object, **__: object) -> None:
            ended.append(time.perf_counter())

    class Timed(GRPOTrainer):
        def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = super()._generate_single_turn(*args, **kwargs)  # type: ignore[no-untyped-call]
            generated.append(time.perf_counter() - start)
            return result

    def reward(completions: Sequence[Any], **_: object) -> list[float]:
        return [vowels(str(completion[-1]["content"])) for completion in completions]

    with tempfile.TemporaryDirectory() as folder_out:
        config = GRPOConfig(
            output_dir=folder_out,
            use_cpu=True,
            bf16=False,
            per_device_train_batch_size=TASKS * CHAINS,
            num_generations=CHAINS,
            max_completion_length=TOKENS,
            max_tool_calling_iterations=0,
            max_steps=STEPS,
            beta=0.0,
            learning_rate=1e-5,
            gradient_checkpointing=False,
            use_transformers_continuous_batching=continuous_batching,
            generation_kwargs={"eos_token_id": UNUSED_TOKEN},
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        rows = [{"prompt": messages(question)} for question in QUESTIONS] * STEPS
        trainer = Timed(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            args=config,
            train_dataset=Dataset.from_list(rows),
            tools=[calculator],
            callbacks=[Watch()],
        )
        # Generation happens while the step's inputs are prepared, before `on_step_begin`.
        start = time.perf_counter()
        trainer.train()
    whole = [end - before for before, end in zip([start, *ended], ended, strict=False)]
    step = sum(whole[1:]) / (STEPS - 1)
    generation = sum(generated[1:]) / max(1, len(generated) - 1)
    return {"step": step, "generation": generation, "rest": step - generation}


def our_step(share_prefixes: bool) -> dict[str, float]:  # noqa: FBT001 - crosses processes
    """Return the seconds of a step of ours, by phase."""
    from agentfly import reward, tool
    from agentfly.agents import Agent
    from agentfly.chat import ChatTemplate, TemplateRenderer
    from agentfly.config import RunSettings
    from agentfly.models import resolve_model
    from agentfly.observe import RunProgress
    from agentfly.training import Source, Trainer
    from agentfly.types import SamplingParams

    own = TemplateRenderer.from_folder(resolve_model(MODEL))
    renderer = TemplateRenderer(own.tokenizer, ChatTemplate(template()))
    agent = Agent(
        MODEL,
        tools=[tool(calculator)],
        reward=reward(_final_vowels),
        system_prompt=SYSTEM,
        renderer=_Endless(renderer),
        sampling=SamplingParams(max_tokens=TOKENS),
        max_turns=1,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings.model_validate(
            {
                "name": "bench",
                "folder": folder,
                "model": {"name": MODEL, "precision": "float32"},
                "rollout": {"tasks_per_step": TASKS, "num_chains": CHAINS},
                "train": {"steps": STEPS, "lr": 1e-5, "share_prefixes": share_prefixes},
                "checkpoint": {"every": STEPS},
                "track": {"trackers": []},
            }
        )
        rows = [{"question": question} for question in QUESTIONS]
        source = Source(agent=agent, tasks=rows)
        result = Trainer(source, settings, progress=RunProgress(quiet=True)).run()
        steps = [record.metrics for record in result.metrics][1:]
    phases = ("sampling", "training", "publishing")
    seconds = {p: sum(m[f"time/{p}"] for m in steps) / len(steps) for p in phases}
    sampled = sum(m["tokens/sampled"] for m in steps) / len(steps)
    assert sampled == TASKS * CHAINS * TOKENS, "every completion is held at its length"
    return {"step": sum(seconds.values()), **seconds}


def _final_vowels(final_response: str) -> float:
    return vowels(final_response)


class _Endless:
    """A renderer that knows no end of a turn, so that completions reach their full length."""

    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()

    def __init__(self, renderer: Any) -> None:
        self._renderer = renderer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._renderer, name)


def _quiet() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def _alone(function: Callable[..., dict[str, float]], argument: object) -> dict[str, float]:
    """Run one side in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as process:
        return process.submit(function, argument).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("ours", "trl", "learner"), help="One side, for a look.")
    only = parser.parse_args().only
    numbers: dict[str, float] = {}
    if only in (None, "ours"):
        numbers |= _named("ours", _alone(our_step, True))  # noqa: FBT003 - crosses processes
        numbers |= _named("ours_no_prefix", _alone(our_step, False))  # noqa: FBT003
    if only in (None, "trl"):
        numbers |= _named("trl", _alone(peer_step, False))  # noqa: FBT003
        numbers |= _named("trl_batching", _alone(peer_step, True))  # noqa: FBT003
    if only in (None, "learner"):
        numbers |= _alone(learner_numbers, None)
    if only is not None:
        for name, value in numbers.items():
            print(f"  {name:32} {value:10.3f}")
        return
    peer = min(numbers["trl_step_s"], numbers["trl_batching_step_s"])
    ratios = {
        "step_speedup_vs_trl": peer / numbers["ours_step_s"],
        "step_speedup_vs_trl_no_prefix": peer / numbers["ours_no_prefix_step_s"],
    }
    report("train", ratios | numbers, aims=AIMS)


def learner_numbers(_: object) -> dict[str, float]:
    """Compare the learner alone with a bare forward and backward pass."""
    from benchmarks.learner import measure

    return measure()


def _named(side: str, seconds: dict[str, float]) -> dict[str, float]:
    named = {f"{side}_{phase}_s": value for phase, value in seconds.items()}
    print(", ".join(f"{name} {value:.1f}" for name, value in named.items()), flush=True)
    return named


if __name__ == "__main__":
    main()
