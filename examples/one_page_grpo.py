"""GRPO on one page: the whole idea, with the library's pieces and without its trainer.

    python examples/one_page_grpo.py

A model of a million parameters is asked for products, may call a calculator, and gets a reward of 1
for the right number. Each step:

    sample    8 chains for each of 8 questions: question → call → result → answer
    compare   a chain's advantage is how much better it did than the other chains of its question
    update    tokens of good chains become more likely, those of bad ones less
    publish   the next step is sampled from the new weights

`agentfly.Trainer` does the same, and adds what a long run needs: packing, shared prompts computed
once, evaluation, checkpoints, records, other algorithms (arXiv:2402.03300 describes this one).
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from random import Random

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: don't fight over the cores

import torch
from torch import Tensor

from agentfly import Agent, Group, SamplingParams, tool
from agentfly.algorithms.advantages import grpo
from agentfly.chat import TemplateRenderer
from agentfly.engines.local import LocalEngine
from agentfly.models import load_model, resolve_model
from agentfly.rewards import numeric_match
from agentfly.tools.builtin import calculate
from agentfly.training import make_samples
from agentfly.types import Sample, SharedTensors

MODEL = "tiny"
STEPS = 6
QUESTIONS, CHAINS = 8, 8
"""A step's questions, and the chains that each is given."""
LEARNING_RATE = 3e-4
MAX_GRAD_NORM = 1.0


def ask(rng: Random) -> dict[str, str]:
    """Make a task: what is asked, and what the reward looks for."""
    a, b = rng.randint(11, 99), rng.randint(11, 99)
    return {"question": f"What is {a}*{b}?", "answer": str(a * b)}


@tool
def calculator(expression: str) -> float:
    """Calculate an arithmetic expression."""
    return calculate(expression)


async def train(steps: int = STEPS, seed: int = 0) -> list[float]:
    """Train, and return the mean reward of every step."""
    folder = resolve_model(MODEL)
    model = load_model(folder, dtype=torch.float32, device="cpu")
    renderer = TemplateRenderer.from_folder(folder)
    # It samples from the very weights that are trained: there is no copy to keep up to date.
    engine = LocalEngine(model, renderer.tokenizer)
    agent = Agent(
        engine,
        renderer=renderer,
        tools=[calculator],
        reward=numeric_match(),
        system_prompt="Use the calculator to answer.",
        sampling=SamplingParams(temperature=1.0, max_tokens=48),
        max_turns=3,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    rng = Random(seed)
    rewards = []
    for step in range(1, steps + 1):
        questions = [ask(rng) for _ in range(QUESTIONS)]
        result = await agent.run(questions, num_chains=CHAINS, seed=step)
        async with engine.paused():
            tokens = update(model, optimizer, result.groups)
            await engine.publish(SharedTensors(), version=step)
        scores = [reward for reward in result.rewards if reward is not None]
        rewards.append(sum(scores) / len(scores))
        print(f"step {step}  reward {rewards[-1]:.2f}  learned from {tokens} tokens")
    await engine.close()
    return rewards


def update(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, groups: Sequence[Group]
) -> int:
    """Take one step uphill, and return how many tokens it was made of."""
    lessons = [lesson for group in groups for lesson in compare(group)]
    # One denominator for all chains: a long chain counts by its tokens, in any batch.
    tokens = sum(sample.num_trained for sample, _ in lessons)
    for sample, advantage in lessons:
        loss = -(advantage * logprobs(model, sample)).sum() / tokens
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
    optimizer.step()
    optimizer.zero_grad()
    return tokens


def compare(group: Group) -> Iterator[tuple[Sample, Tensor]]:
    """Yield each chain's tokens with its advantage over its siblings.

    Chains that failed are left out: they are neither good nor bad. Where all chains did equally
    well, there is nothing to learn.
    """
    scored = [chain for chain in group.members if chain.trainable]
    rewards_G = torch.tensor([chain.reward or 0.0 for chain in scored])
    if len(scored) < 2 or rewards_G.min() == rewards_G.max():
        return
    for chain, advantage in zip(scored, grpo(rewards_G), strict=True):
        for sample in make_samples(chain):
            yield sample, advantage


def logprobs(model: torch.nn.Module, sample: Sample) -> Tensor:
    """Return the log-probability of every token that the model itself sampled.

    What stands in the sample is what was sampled, id for id; the mask is off on the prompt, on the
    template and on what the calculator said.
    """
    ids_T, mask_T = torch.tensor(sample.token_ids), torch.tensor(sample.mask)
    logits_TV: Tensor = model(ids_T[None]).logits[0] / sample.temperature
    # The logits at one position are about the token at the next.
    predicted_NV = logits_TV[:-1][mask_T[1:]].log_softmax(-1)
    sampled_N = ids_T[1:][mask_T[1:]]
    return predicted_NV[torch.arange(len(sampled_N)), sampled_N]


if __name__ == "__main__":
    asyncio.run(train())
