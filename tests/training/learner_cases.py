"""Small random models and groups of chains to hold the learner against plain forward passes."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

from agentfly.algorithms import Algorithm, make_algorithm
from agentfly.config import ModelSettings, RunSettings, SourceSettings, TrainSettings
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.optimizer import Optimizer, Update
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

# Models this small are fastest on one thread, and tests run beside others.
torch.set_num_threads(1)

VOCABULARY = 97
hf: Any = transformers
"""Its classes are not annotated."""

SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

MODELS: dict[str, Callable[[], Any]] = {
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, num_key_value_heads=2)),
    "llama-tied": lambda: hf.LlamaForCausalLM(
        hf.LlamaConfig(**SMALL, num_key_value_heads=4, tie_word_embeddings=True)
    ),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**SMALL, num_key_value_heads=1)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(
        hf.Qwen3Config(**SMALL, num_key_value_heads=2, head_dim=16)
    ),
    "gpt2-dropout": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=48,
            n_layer=2,
            n_head=4,
            n_positions=512,
            bos_token_id=1,
            eos_token_id=2,
            resid_pdrop=0.5,
            embd_pdrop=0.5,
            attn_pdrop=0.5,
        )
    ),
    "mistral-window": lambda: hf.MistralForCausalLM(
        hf.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=24)
    ),
}


def make_model(name: str = "llama", seed: int = 0) -> Any:
    """Weights with opinions: a fresh model's distribution is nearly flat."""
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.15, generator=generator)
    return model.eval()


def make_policy(model: Any, **settings: Any) -> Policy:
    model_settings = ModelSettings(name="test", **{"precision": "float32", **settings})
    return Policy(model, folder=Path("nowhere"), settings=model_settings)


def make_settings(**train: Any) -> RunSettings:
    return RunSettings(
        name="test",
        model=ModelSettings(name="test"),
        train=TrainSettings(**{"lr": 1e-3, "max_grad_norm": 1e9, **train}),
        source=(SourceSettings(tasks="none"),),
    )


def make_learner(model: Any, algorithm: Algorithm | None = None, **train: Any) -> LocalLearner:
    return LocalLearner(
        make_policy(model), algorithm or make_algorithm("grpo"), make_settings(**train)
    )


class Words:
    """Random ids."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def ids(self, least: int, most: int) -> tuple[int, ...]:
        count = self._random.randint(least, most)
        return tuple(self._random.randrange(3, VOCABULARY) for _ in range(count))


def turn(
    index: int, context: Sequence[int], sampled: Sequence[int], logprob: float = -1.0, **more: Any
) -> Turn:
    completion = Completion(
        token_ids=tuple(sampled),
        logprobs=(logprob,) * len(sampled),
        versions=((0, len(sampled)),),
        finish_reason=FinishReason.LENGTH,
    )
    return Turn(
        index=index,
        context_ids=tuple(context),
        completion=completion,
        message=Message(role="assistant", content="…"),
        **{"temperature": 1.0, **more},
    )


def chain(
    group: str, index: int, streams: Sequence[Sequence[Turn]], reward: float | None, **more: Any
) -> Trajectory:
    return Trajectory(
        task=Task(id=group, messages=()),
        group_id=group,
        chain_id=f"{group}/{index}",
        messages=(),
        streams=tuple(TokenStream(turns=tuple(turns)) for turns in streams),
        **{
            "stop": StopReason.ANSWERED,
            "score": None if reward is None else Score(value=reward),
            **more,
        },
    )


def group(id: str, members: Sequence[Trajectory]) -> Group:
    return Group(id=id, task=Task(id=id, messages=()), members=tuple(members))


def make_groups(
    seed: int = 0, groups: int = 2, chains: int = 4, temperature: float = 1.0
) -> list[Group]:
    """Chains of two turns; a system prompt that all share, a question that each group shares."""
    words = Words(seed)
    system = words.ids(20, 20)
    found = []
    for g in range(groups):
        prompt = (*system, *words.ids(17, 23))
        members = []
        for c in range(chains):
            first = turn(0, prompt, words.ids(3, 9), temperature=temperature)
            second = turn(1, words.ids(4, 8), words.ids(2, 5), temperature=temperature)
            members.append(chain(f"g{g}", c, [[first, second]], float((c + seed) % 3)))
        found.append(group(f"g{g}", members))
    return found


def as_sampled_by(model: Any, groups: Sequence[Group]) -> list[Group]:
    """Record the log-probabilities that the module itself gives to what was sampled."""

    def recorded(one: Turn, logprobs: Tensor) -> Turn:
        assert one.completion is not None
        return replace(one, completion=replace(one.completion, logprobs=tuple(logprobs.tolist())))

    def stream(of: TokenStream) -> TokenStream:
        logprobs = plain_logprobs(model, of).detach()
        turns = []
        for one in of.turns:
            assert one.completion is not None
            count = len(one.completion.token_ids)
            turns.append(recorded(one, logprobs[:count]))
            logprobs = logprobs[count:]
        return TokenStream(turns=tuple(turns))

    return [
        replace(
            g,
            members=tuple(
                replace(member, streams=tuple(map(stream, member.streams))) for member in g.members
            ),
        )
        for g in groups
    ]


def plain_logprobs(model: Any, stream: TokenStream) -> Tensor:
    """One stream, padded, through the module's own forward pass: sampled tokens alone."""
    padding = 7
    ids = torch.tensor([[*stream.token_ids, *[0] * padding]])
    attention = torch.tensor([[1] * len(stream.token_ids) + [0] * padding])
    logits = model(input_ids=ids, attention_mask=attention).logits[0]
    table = (logits / stream.turns[0].temperature).log_softmax(-1)
    chosen = table[:-1].gather(1, ids[0, 1:, None])[: len(stream.token_ids) - 1, 0]
    kept: Tensor = chosen[torch.tensor(stream.sampled[1:])]
    return kept


def plain_grpo_gradient(model: Any, groups: Sequence[Group]) -> list[Tensor]:
    """GRPO's first update by hand: the advantage times the log-probability, mean over tokens."""
    total, count = torch.zeros(()), 0
    for g in groups:
        rewards = torch.tensor([member.reward or 0.0 for member in g.members])
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        for member, advantage in zip(g.members, advantages, strict=True):
            for stream in member.streams:
                logprobs = plain_logprobs(model, stream)
                total = total - advantage * logprobs.sum()
                count += len(logprobs)
    model.requires_grad_(True)
    return list(torch.autograd.grad(total / count, list(model.parameters())))


@contextmanager
def kept_gradients() -> Iterator[list[list[Tensor]]]:
    """Collect the gradients of each update, instead of applying them."""
    kept: list[list[Tensor]] = []
    real = Optimizer.update

    def update(self: Optimizer, lr: float) -> Update:
        parameters = self._parameters
        kept.append([torch.zeros_like(p) if p.grad is None else p.grad for p in parameters])
        for parameter in parameters:
            parameter.grad = None
        return Update(grad_norm=0.0, applied=True)

    Optimizer.update = update  # type: ignore[method-assign]
    try:
        yield kept
    finally:
        Optimizer.update = real  # type: ignore[method-assign]


def gradient_of(learner: LocalLearner, groups: Sequence[Group], *more: Any) -> list[Tensor]:
    with kept_gradients() as kept:
        learner.learn(groups, *more)
    (only,) = kept
    return only


def relative(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
    difference = sum((x - y).square().sum() for x, y in zip(a, b, strict=True))
    size = sum(y.square().sum() for y in b)
    return float((difference / size) ** 0.5)


def weights_of(model: Any) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


def same(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
