"""Weights go to disk and come back; an engine samples from what is trained."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.patience import PATIENCE
from tests.training.learner_cases import (
    Words,
    as_sampled_by,
    hf,
    make_groups,
    make_model,
    make_policy,
    make_settings,
    plain_logprobs,
    same,
    weights_of,
)

from agentfly.algorithms import make_algorithm
from agentfly.config import LoraSettings, ModelSettings
from agentfly.engines.local import LocalEngine
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.policy import Policy
from agentfly.types import (
    Request,
    SamplingParams,
    Seed,
    SharedTensors,
)

LORA = LoraSettings(rank=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("model")
    make_model().save_pretrained(path)
    return str(path)


def load(name: str, lora: LoraSettings | None = None, *, seed: int = 1, **more: Any) -> Policy:
    return Policy.load(ModelSettings(name=name, device="cpu", lora=lora, **more), seed=seed)


def logprobs(model: Any) -> torch.Tensor:
    streams = [member.streams[0] for g in make_groups() for member in g.members]
    with torch.no_grad():
        return torch.cat([plain_logprobs(model, stream) for stream in streams])


def make_learner(policy: Policy, name: str = "grpo", **train: Any) -> LocalLearner:
    return LocalLearner(policy, make_algorithm(name), make_settings(lr=1e-2, **train))


@pytest.mark.parametrize("lora", [None, LORA])
def test_an_export_is_a_plain_folder_with_the_same_logprobs(
    lora: LoraSettings | None, tmp_path: Path
) -> None:
    policy = load("tiny", lora)
    before = logprobs(policy.causal_lm)
    make_learner(policy).learn(make_groups())
    trained = logprobs(policy.causal_lm)
    assert (trained - before).abs().max() > 0.01
    policy.export(tmp_path)
    again = hf.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert "lora" not in "".join(again.state_dict())
    torch.testing.assert_close(logprobs(again), trained, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logprobs(policy.causal_lm), trained, rtol=0, atol=0)
    hf.AutoTokenizer.from_pretrained(tmp_path)
    assert resolve_model(tmp_path) == tmp_path


def test_an_export_in_bfloat16_says_so(folder: str, tmp_path: Path) -> None:
    load(folder).export(tmp_path, dtype="bfloat16")
    again = hf.AutoModelForCausalLM.from_pretrained(tmp_path)
    assert again.dtype == torch.bfloat16


@pytest.mark.parametrize(("name", "lora"), [("grpo", None), ("ppo", LORA)])
def test_a_resumed_run_has_the_same_weights_bit_for_bit(
    name: str, lora: LoraSettings | None, folder: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "epochs": 2,
        "minibatches": 2,
        "steps": 6,
        "warmup_steps": 2,
        "schedule": "cosine",
    }
    steps = [make_groups(seed=seed, chains=2) for seed in range(3)]
    whole = load(folder, lora)
    learner = make_learner(whole, name, **options)
    for groups in steps:
        learner.learn(groups)

    first = load(folder, lora)
    learner = make_learner(first, name, **options)
    for groups in steps[:1]:
        learner.learn(groups)
    first.save(tmp_path)
    torch.save(learner.state_dict(), tmp_path / "learner.pt")

    second = load(folder, lora)
    learner = make_learner(second, name, **options)
    second.restore(tmp_path)
    learner.load_state_dict(torch.load(tmp_path / "learner.pt"))
    assert same(weights_of(second.causal_lm), weights_of(first.causal_lm))
    for groups in steps[1:]:
        learner.learn(groups)
    assert same(weights_of(second.causal_lm), weights_of(whole.causal_lm))


def test_adapters_alone_are_trained(folder: str) -> None:
    policy = load(folder, LORA)
    frozen = {n: p.clone() for n, p in policy.causal_lm.named_parameters() if "lora" not in n}
    make_learner(policy).learn(make_groups())
    for name, parameter in policy.causal_lm.named_parameters():
        assert parameter.requires_grad == ("lora" in name)
        if name in frozen:
            assert torch.equal(parameter, frozen[name])


def test_fresh_adapters_depend_on_the_seed_alone(folder: str) -> None:
    policies = []
    for seed, outside in ((1, 5), (1, 6), (2, 6)):
        torch.manual_seed(outside)
        policies.append(load(folder, LORA, seed=seed))
    first, again, other = (weights_of(policy.causal_lm) for policy in policies)
    assert same(first, again)
    assert not same(first, other)


def test_an_adapted_head_is_refused_with_the_way_out() -> None:
    lora = LoraSettings(rank=4, targets=("q_proj", "lm_head"))
    policy = make_policy(make_model(), lora=lora)
    with pytest.raises(ConfigError, match="Leave the head out of the LoRA targets"):
        make_learner(policy)


def test_logits_that_are_capped_after_the_head_are_refused() -> None:
    config = hf.Gemma2Config(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        final_logit_softcapping=0.1,
    )
    policy = make_policy(hf.Gemma2ForCausalLM(config).eval())
    with pytest.raises(ConfigError, match="not what its head returns"):
        make_learner(policy)


@pytest.mark.parametrize("lora", [None, LORA])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
async def test_an_engine_samples_from_what_is_trained(
    lora: LoraSettings | None, precision: str, folder: str
) -> None:
    """Before and after an update, the engine's log-probabilities are the module's own."""
    policy = load(folder, lora, precision=precision)
    learner = make_learner(policy)
    engine = LocalEngine(policy.causal_lm, dtype=policy.sampling_dtype)
    allowed = 1e-4 if policy.samples_exactly else 0.15
    prompt = Words(3).ids(30, 30)
    try:
        for version in range(2):
            await engine.publish(SharedTensors(), version)
            completion = await engine.sample(
                prompt,
                SamplingParams(max_tokens=12),
                request=Request(chain_id="c", group_id="g", turn=version, seed=Seed(version)),
                deadline=asyncio.get_running_loop().time() + PATIENCE,
            )
            ids = torch.tensor([[*prompt, *completion.token_ids]])
            with torch.no_grad():
                table = policy.causal_lm(input_ids=ids).logits[0].log_softmax(-1)
            expected = table[len(prompt) - 1 : -1].gather(1, ids[0, len(prompt) :, None])[:, 0]
            found = torch.tensor(completion.logprobs)
            assert (found - expected).abs().max() < allowed
            async with engine.paused():
                learner.learn(as_sampled_by(policy.causal_lm, make_groups()))
    finally:
        await engine.close()
