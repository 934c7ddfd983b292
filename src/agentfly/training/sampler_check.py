"""Check that an engine with weights of its own samples as the learner computes.

Weights that went by files or over a network may have arrived in part: a server that keeps the old
head of tied embeddings was seen to be off by 0.075, without an error anywhere. So a few tokens are
sampled after a publish, and their log-probabilities compared with those of the learner.
"""

import asyncio
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.func import functional_call

from agentfly.config import EngineSettings
from agentfly.errors import EngineError, RunError
from agentfly.models import load_model
from agentfly.training.learner.policy import Policy
from agentfly.training.publisher import uninterrupted
from agentfly.types import Completion, Request, SamplingParams, Seed, TrainableEngine

PROMPTS = 4
"""Prompts that each replica samples from."""
PROMPT_TOKENS = 24
SAMPLED_TOKENS = 16
ATTEMPTS = 2
"""A server that dies is started again by the next request."""
BOUND = 2e-3
"""Mean difference that rounding explains in float32. Seen between vLLM and transformers: 7e-5."""
ROUNDED = {"bfloat16", "torch.bfloat16"}
ROUNDED_BOUND = 0.05
"""The least bound where either side computes in bfloat16."""
ROUNDING_FACTOR = 2.0
"""How many times as far from float32 an engine may be as the learner's own rounding. Seen for
SmolLM2-135M in bfloat16: 0.040 by the learner's rounding, 0.051 by an engine's, and about 0.09 with
the head of an older version."""
SHARDED_BOUND = 0.1
"""The bound in bfloat16 for sharded weights, whose logits are not computed in float32."""

_NUMBERED = re.compile(r"^(.*?\.\d+)\.")
_log = logging.getLogger(__name__)


class Checked(Protocol):
    """A learner whose weights an engine should sample from."""

    @property
    def policy(self) -> Policy:
        """The policy in training."""

    def logprobs(self, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens after a prompt."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    prompt: tuple[int, ...]
    completion: Completion


class SamplerCheck:
    """Compares an engine with the learner, now and then."""

    def __init__(self, learner: Checked, engine: TrainableEngine, settings: EngineSettings) -> None:
        self._learner = learner
        self._policy = learner.policy
        self._engine = engine
        self._settings = settings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agentfly-sampler-check")
        self.compared = 0
        """Number of comparisons that were made."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End its thread."""
        self._thread.shutdown()

    async def run_if_due(self, version: int) -> None:
        """Compare the first two versions, and then one in every `engine.check_every`.

        Raises:
            RunError: The engine samples from other weights than the learner's.
        """
        # The first proves that both have the same model, the second that a change arrives.
        if self.compared >= 2 and version % self._settings.check_every:
            return
        sampled = await self._sample(version)
        if sampled:
            self.compared += 1
            await uninterrupted(partial(self._compare, sampled, version), self._thread)

    async def _sample(self, version: int) -> list[_Sampled]:
        vocabulary = self._policy.causal_lm.get_input_embeddings().num_embeddings
        prompts = list(_prompts(PROMPTS * self._settings.count, vocabulary))
        for attempt in range(ATTEMPTS):
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(
                            self._complete(f"check/{version}/{number}", number, prompt)
                        )
                        for number, prompt in enumerate(prompts)
                    ]
            except* EngineError as errors:
                _log.warning("comparing log-probabilities: %s", errors.exceptions[0])
                if attempt + 1 == ATTEMPTS:
                    _log.warning("the engine's log-probabilities are compared after a later step")
            else:
                return [_Sampled(p, task.result()) for p, task in zip(prompts, tasks, strict=True)]
        return []

    async def _complete(self, chain: str, number: int, prompt: tuple[int, ...]) -> Completion:
        # A chain of the same name would stay with its replica, and leave out one that came back.
        request = Request(chain_id=chain, group_id="check", turn=0, seed=Seed(0).child(number))
        params = SamplingParams(max_tokens=SAMPLED_TOKENS)
        return await self._engine.sample(prompt, params, request=request, deadline=math.inf)

    def _compare(self, sampled: Sequence[_Sampled], version: int) -> None:
        error = self._error(sampled)
        bound = self._settings.max_logprob_error or self._bound(sampled)
        _log.info("log-probabilities of version %d differ by %.2g on average", version, error)
        if not error <= bound:
            raise RunError(
                f"the engine does not sample from version {version} of the weights: its "
                f"log-probabilities differ from the learner's by {error:.3g} on average, more than "
                f"{bound:.2g} (engine.max_logprob_error). {self._suspect(sampled, error)}"
            )

    def _error(self, sampled: Sequence[_Sampled]) -> float:
        """Return the mean difference to the learner, whose weights may be on several processes."""
        if not self._policy.is_sharded:
            return _error(self._policy.causal_lm, sampled)
        differences = [
            torch.tensor(self._learner.logprobs(one.prompt, one.completion.token_ids))
            - torch.tensor(one.completion.logprobs)
            for one in sampled
        ]
        return torch.cat(differences).abs().mean().item()

    def _bound(self, sampled: Sequence[_Sampled]) -> float:
        if not {self._settings.dtype, str(self._policy.compute_dtype)} & ROUNDED:
            return BOUND
        if self._policy.is_sharded:
            return SHARDED_BOUND
        return max(ROUNDED_BOUND, ROUNDING_FACTOR * _rounding(self._policy.causal_lm, sampled))

    def _suspect(self, sampled: Sequence[_Sampled], error: float) -> str:
        """Find the layer that, as it was at the start, makes the learner agree with the engine."""
        model = self._policy.causal_lm
        if self._policy.is_sharded:
            return "Run it once with learner.processes = 1, which says which layer to suspect"
        errors = {
            layer: _error(model, sampled, replaced)
            for layer, replaced in _stale_layers(self._policy).items()
        }
        best = min(errors, key=lambda layer: errors[layer], default=None)
        if best is None or errors[best] > error / 2:
            return (
                "No single layer explains it: does the engine have another model, another "
                "precision, or other weights than those that were published?"
            )
        tied = best == "lm_head" and model.config.tie_word_embeddings
        hint = ": it is tied to the embeddings, and has to be sent by its own name" if tied else ""
        return (
            f"Suspect {best}{hint}. With the weights that it had at the start, the learner would "
            f"be off by {errors[best]:.2g} only"
        )


def _prompts(count: int, vocabulary: int) -> Iterator[tuple[int, ...]]:
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        ids = torch.randint(vocabulary, (PROMPT_TOKENS,), generator=generator)
        yield tuple(ids.tolist())


@torch.no_grad()
def _error(
    model: Any, sampled: Sequence[_Sampled], replaced: Mapping[str, Tensor] | None = None
) -> float:
    """Return the mean difference to the learner in float32, some of its weights replaced."""
    differences = [
        _logprobs(model, one, replaced=replaced) - torch.tensor(one.completion.logprobs)
        for one in sampled
    ]
    return torch.cat(differences).abs().mean().item()


@torch.no_grad()
def _rounding(model: Any, sampled: Sequence[_Sampled]) -> float:
    """Return the mean difference that bfloat16 makes to the learner itself."""
    differences = [_logprobs(model, one, rounded=True) - _logprobs(model, one) for one in sampled]
    return torch.cat(differences).abs().mean().item()


def _logprobs(
    model: Any,
    one: _Sampled,
    *,
    rounded: bool = False,
    replaced: Mapping[str, Tensor] | None = None,
) -> Tensor:
    tokens = torch.tensor(one.completion.token_ids, device=model.device)
    ids = torch.tensor([[*one.prompt, *one.completion.token_ids]], device=model.device)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=rounded):
        # Not tied: a head that is replaced must leave the embeddings alone.
        out = functional_call(
            model, dict(replaced or {}), kwargs={"input_ids": ids}, tie_weights=False
        )
    logits: Tensor = out.logits[0, len(one.prompt) - 1 : -1].float()
    return logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0].cpu()


def _stale_layers(policy: Policy) -> dict[str, dict[str, Tensor]]:
    """Return each layer's weights as they were before any training, where they have changed."""
    model = policy.causal_lm
    at_start = _starting_weights(policy)
    layers: dict[str, dict[str, Tensor]] = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        old = at_start(name, weight)
        if old is not None and not torch.equal(old, weight):
            layers.setdefault(_layer(name), {})[name] = old
    return layers


def _starting_weights(policy: Policy) -> Callable[[str, Tensor], Tensor | None]:
    if policy.adapted:
        # An adapter begins as the product with a matrix of zeros.
        return lambda name, weight: torch.zeros_like(weight) if "lora_B" in name else None
    model = load_model(
        policy.folder,
        dtype=torch.float32,
        device=policy.device,
        trust_remote_code=policy.settings.trust_remote_code,
    )
    tensors = model.state_dict()
    return lambda name, weight: tensors.get(name)


def _layer(name: str) -> str:
    """Return what to call the layer of a parameter.

    >>> _layer("model.layers.3.mlp.up_proj.weight"), _layer("lm_head.weight")
    ('model.layers.3', 'lm_head')
    """
    numbered = _NUMBERED.match(name)
    return numbered.group(1) if numbered else name.rpartition(".")[0]
