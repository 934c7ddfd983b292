"""Each check of `make gpu-acceptance` passes here, and fails when what it checks is broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks import gpu_acceptance
from benchmarks.gpu_acceptance import CHECKS, main

from agentfly.engines import EngineSpec
from agentfly.engines.local import LocalEngine
from agentfly.engines.local.sampled_weights import SampledWeights
from agentfly.errors import ConfigError, EngineError
from agentfly.models import load_model
from agentfly.sandbox.levels import Probe
from agentfly.training import LocalLearner, Policy
from agentfly.training.learner.attention_kernels import Fused
from agentfly.training.learner.memory import Memory, estimate_memory
from agentfly.training.learner.optimizer import Optimizer, Update
from agentfly.training.learner.sharded_learner import ShardedLearner
from agentfly.types import Completion, TrainableEngine, Weights, WeightsFolder

Patch = pytest.MonkeyPatch
CHEAP = [name for name in CHECKS if name not in ("vllm", "sharding")]


@pytest.fixture(autouse=True)
def without_vllm(monkeypatch: Patch) -> None:
    monkeypatch.delenv("AGENTFLY_VLLM_PYTHON", raising=False)
    monkeypatch.setattr(gpu_acceptance, "find_command", no_vllm)


def no_vllm(python: str | None) -> tuple[str, ...]:
    raise ConfigError("vLLM is not installed here")


def test_there_are_ten_checks_and_all_pass_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(CHECKS) == 10
    assert main(CHEAP) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [[name, "pass"] for name in CHEAP]
    assert lines[-1] == "no check failed"


def test_without_vllm_its_check_is_skipped_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["vllm"]) == 0
    assert "skip  vLLM is not installed here" in capsys.readouterr().out


def test_an_unknown_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["atention"])
    assert "unknown check 'atention': choose from device, engine" in capsys.readouterr().err


def hide_the_gpu(monkeypatch: Patch) -> None:
    monkeypatch.setattr(gpu_acceptance, "has_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def wrong_products(monkeypatch: Patch) -> None:
    real = torch.matmul

    def noisy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return real(a, b) * (1.0 if a.dtype == torch.float32 else 1.1)

    monkeypatch.setattr(torch, "matmul", noisy)


def wrong_logprobs(monkeypatch: Patch) -> None:
    real = LocalEngine.sample

    async def sample(self: LocalEngine, *args: Any, **options: Any) -> Completion:
        found = await real(self, *args, **options)
        return replace(found, logprobs=tuple(p - 0.1 for p in found.logprobs))

    monkeypatch.setattr(LocalEngine, "sample", sample)


def dead_engine(monkeypatch: Patch) -> None:
    async def sample(self: LocalEngine, *args: Any, **options: Any) -> Completion:
        raise EngineError("the engine is dead")

    monkeypatch.setattr(LocalEngine, "sample", sample)


def noisy_attention(monkeypatch: Patch) -> None:
    real = Fused.forward

    def forward(self: Fused, *args: Any, **options: Any) -> Any:
        output, lse = real(self, *args, **options)
        return output + 0.1 * torch.randn_like(output), lse

    monkeypatch.setattr(Fused, "forward", forward)


def noisy_gradients(monkeypatch: Patch) -> None:
    real = Fused.backward

    def backward(self: Fused, *args: Any, **options: Any) -> Any:
        return tuple(g + 0.1 * torch.randn_like(g) for g in real(self, *args, **options))

    monkeypatch.setattr(Fused, "backward", backward)


def stale_folder(monkeypatch: Patch) -> None:
    """Write the weights as they were before the update."""
    real = LocalLearner.weights

    def weights(self: Any, form: type[Weights], folder: Path) -> Weights:
        if form is WeightsFolder:
            Policy.load(self.policy.settings).export(folder)
            return WeightsFolder(path=folder)
        return real(self, form, folder)

    monkeypatch.setattr(LocalLearner, "weights", weights)


def lost_stream(monkeypatch: Patch) -> None:
    """Receive all tensors, and keep the old ones."""
    for name in ("load", "load_each"):
        monkeypatch.setattr(SampledWeights, name, lambda self, weights: list(weights))


def idle_optimizer(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Optimizer, "update", lambda self, lr: Update(grad_norm=0.0, applied=False))


def lost_rows(monkeypatch: Patch) -> None:
    """Learn from some of the chains only, as when one process's rows do not count."""
    real = ShardedLearner.learn

    def learn(self: ShardedLearner, groups: Sequence[Any], *args: Any, **options: Any) -> Any:
        return real(self, groups[1:], *args, **options)

    monkeypatch.setattr(ShardedLearner, "learn", learn)


def estimate_times(factor: float) -> Callable[[Patch], None]:
    def wrong_estimate(monkeypatch: Patch) -> None:
        def estimate(*args: Any) -> Memory:
            real = estimate_memory(*args)
            return replace(real, fixed=real.fixed * factor, per_token=real.per_token * factor)

        monkeypatch.setattr(gpu_acceptance, "estimate_memory", estimate)

    return wrong_estimate


def no_isolation(monkeypatch: Patch) -> None:
    async def probe() -> Probe:
        return Probe(isolation=None, missing=("namespaces: unshare: not permitted",))

    monkeypatch.setattr(gpu_acceptance, "probe", probe)


def server_of_other_weights(monkeypatch: Patch) -> None:
    def make(spec: EngineSpec) -> TrainableEngine:
        module = load_model(spec.folder, dtype=torch.float32, device="cpu")
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.mul_(1.1)
        return LocalEngine(module)

    monkeypatch.setattr(gpu_acceptance, "find_command", lambda python: ("vllm", "serve"))
    monkeypatch.setattr(gpu_acceptance, "make_engine", make)


def server_that_can_not_start(monkeypatch: Patch) -> None:
    def make(spec: EngineSpec) -> TrainableEngine:
        raise EngineError("vllm exited with code 1 while it started")

    monkeypatch.setattr(gpu_acceptance, "find_command", lambda python: ("vllm", "serve"))
    monkeypatch.setattr(gpu_acceptance, "make_engine", make)


@pytest.mark.parametrize(
    ("check", "broken", "complaint"),
    [
        ("device", hide_the_gpu, "expected torch to see the GPU"),
        ("device", wrong_products, "expected products of matrices in torch.bfloat16 within"),
        ("engine", wrong_logprobs, "differ from the learner's by 0.1 on average"),
        ("engine", dead_engine, "got only errors"),
        ("attention", noisy_attention, "expected hidden states of packed rows like"),
        ("attention", noisy_gradients, "expected outputs and gradients within 0.001 of SDPA"),
        ("vllm", server_of_other_weights, "the engine does not sample from version 0"),
        ("vllm", server_that_can_not_start, "exited with code 1 while it started"),
        ("folder", stale_folder, "the engine does not sample from version"),
        ("stream", lost_stream, "the engine does not sample from version"),
        ("grpo", idle_optimizer, "got 0 of 38 tensors changed"),
        pytest.param(
            *("sharding", lost_rows, "expected the loss, gradient and update of one process"),
            marks=pytest.mark.slow,
        ),
        ("memory", estimate_times(10), "expected an estimate of 0.8 to 3 times"),
        ("memory", estimate_times(0.1), "expected an estimate of 0.8 to 3 times"),
        ("sandbox", no_isolation, "got namespaces: unshare: not permitted"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_check_fails_when_what_it_checks_is_broken(
    check: str,
    broken: Callable[[Patch], None],
    complaint: str,
    monkeypatch: Patch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken(monkeypatch)
    assert main([check]) == 1
    line, last = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{check:<10}FAIL  ")
    assert complaint in line
    assert last == "1 of 1 checks failed"


@pytest.mark.slow
def test_learner_processes_pass_here() -> None:
    assert main(["sharding"]) == 0
