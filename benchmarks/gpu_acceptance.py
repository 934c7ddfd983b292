"""Ten checks that a machine with GPUs passes before it trains anything, in about ten minutes.

    make gpu-acceptance
    python -m benchmarks.gpu_acceptance             # the same
    python -m benchmarks.gpu_acceptance attention   # only some, by name

Each check prints one line: pass, skip with the reason, or FAIL with what was expected, what was
got, and the way out. The exit code is 1 if any failed. Without a GPU each check runs its equivalent
on the processor; those of vLLM need AGENTFLY_VLLM_PYTHON, the interpreter of an environment that
has it.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from benchmarks.live_memory import peak_memory
from safetensors.torch import load_file
from torch import Tensor

from agentfly import Agent, Limits, SamplingParams, Source, Trainer, reward
from agentfly.agents.run_parts import resolve_run
from agentfly.algorithms import make_algorithm
from agentfly.chat.mask import all_sampled
from agentfly.config import EngineSettings, RunSettings
from agentfly.engines import EngineSpec, make_engine
from agentfly.engines.local import LocalEngine
from agentfly.engines.vllm.maker import find_command
from agentfly.engines.vllm.server_process import has_gpu
from agentfly.errors import AgentFlyError, ConfigError, RunError, boundary
from agentfly.modeling.shared_view import bfloat16_pays
from agentfly.models import load_model, resolve_model
from agentfly.observe import RunProgress
from agentfly.sandbox import probe
from agentfly.sandbox.levels import ALLOW_NAMESPACES
from agentfly.training import LocalLearner, Policy, make_samples, pack
from agentfly.training.learner.memory import BYTES_PER_PARAMETER, estimate_memory
from agentfly.training.learner.packed_forward import (
    Forward,
    completion_row,
    targets_of,
    trained_positions,
)
from agentfly.training.learner_processes import open_learner
from agentfly.training.publisher import publishing, uninterrupted
from agentfly.training.sampler_check import SamplerCheck
from agentfly.types import Group, NamedTensors, Sample, TrainableEngine, WeightsFolder

MODEL = "tiny-random"
"""A small Llama with random weights: its chains differ, so that there is something to learn."""
SIZE = 256
"""Rows and columns of the matrices that are multiplied."""
ROUNDING = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
"""Largest relative error of a product of matrices. bfloat16 has 8 bits."""
ATTENTION_ERROR = 1e-3
"""Largest relative error of log-probabilities and gradients over packed rows, in float32."""
SHARDED_ERROR = 1e-4
"""Largest relative difference between one process and several, in float32."""
ROW_TOKENS = 1024
"""Length of the row whose memory is measured."""
ESTIMATED = (0.8, 3.0)
"""Estimate over measurement. A GPU's allocator rounds up, and a small model shows it most."""
LEARNING_RATE = 3e-3
"""High enough that one update is seen in log-probabilities."""
ROWS = [{"id": f"row{i}", "question": f"What is {i} + {i + 3}?"} for i in range(4)]


class FailedError(Exception):
    """A check that did not find what it expected."""

    def __init__(self, *, expected: str, got: str, way_out: str) -> None:
        super().__init__(f"expected {expected}; got {got}. {way_out}")


class SkippedError(Exception):
    """A check that can't be done here, with the reason."""


@reward
def letters(final_response: str) -> float:
    """Differ from chain to chain."""
    return sum(letter in "0123456789aeiou" for letter in final_response) / 10


@dataclass
class Bench:
    """What the checks share: a model, chains that it sampled, and a folder."""

    folder: Path
    stack: AsyncExitStack
    """Closes what outlives a check."""
    groups: list[Group] = field(default_factory=list)
    vllm: TrainableEngine | None = None
    """A server that an earlier check started."""
    thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    @cached_property
    def device(self) -> torch.device:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    @cached_property
    def learner(self) -> LocalLearner:
        return _learner(self.settings("learner", device=self.device.type))

    def settings(self, name: str, *, device: str, **tables: Any) -> RunSettings:
        model = {"name": MODEL, "device": device, **tables.pop("model", {})}
        return RunSettings.model_validate(
            {
                "name": name,
                "folder": self.folder / "runs",
                "model": model,
                "rollout": {"tasks_per_step": len(ROWS), "num_chains": 4, "max_tokens": 32},
                "train": {"steps": 1, "lr": LEARNING_RATE},
                "eval": {"every": 0, "at_start": False, "at_end": False},
                "track": {"trackers": []},
                **tables,
            }
        )

    async def chains(self) -> list[Group]:
        """Sample chains once, by the local engine."""
        if not self.groups:
            async with _agent(MODEL) as agent:
                self.groups = list((await agent.run(ROWS, num_chains=4)).groups)
        return self.groups

    async def learn(self) -> None:
        """Change the weights of the learner, and make sure that this can be seen."""
        groups = await self.chains()
        before = self.learner.logprobs(*_completion(groups))
        await uninterrupted(partial(self.learner.learn, groups), self.thread)
        moved = _largest_difference(before, self.learner.logprobs(*_completion(groups)))
        if not moved > 0.01:
            raise FailedError(
                expected="an update that changes log-probabilities by more than 0.01",
                got=f"{moved:.2g}",
                way_out="See the check `grpo`",
            )


def _agent(model: str | None = None) -> Agent:
    sampling, limits = SamplingParams(max_tokens=32), Limits(max_turns=1)
    return Agent(model, reward=letters, sampling=sampling, limits=limits)


def _learner(settings: RunSettings) -> LocalLearner:
    policy = Policy.load(settings.model, seed=settings.seed)
    return LocalLearner(policy, make_algorithm("grpo"), settings)


def _completion(groups: Sequence[Group]) -> tuple[Sequence[int], Sequence[int]]:
    (turn, *_) = groups[0].members[0].turns
    assert turn.completion is not None, "the local engine returns ids"
    return turn.context_ids, turn.completion.token_ids


def _largest_difference(a: Sequence[float], b: Sequence[float]) -> float:
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def _relative_error(got: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    difference = sum(
        ((x - y).square().sum() for x, y in zip(got, expected, strict=True)), torch.zeros(())
    )
    size = sum((y.square().sum() for y in expected), torch.zeros(()))
    return float((difference / size).detach() ** 0.5)


async def check_device(bench: Bench) -> str:
    """CUDA is there for torch, and matrices are multiplied right, in bfloat16 too."""
    if has_gpu() and not torch.cuda.is_available():
        raise FailedError(
            expected="torch to see the GPU of this machine",
            got=f"torch {torch.__version__}, built for CUDA {torch.version.cuda}",
            way_out="Install a torch for CUDA (pip install torch --index-url "
            "https://download.pytorch.org/whl/cu126), or a newer driver",
        )
    a, b = torch.randn(2, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    exact = a.double() @ b.double()
    for dtype, bound in ROUNDING.items():
        product = torch.matmul(a.to(bench.device, dtype), b.to(bench.device, dtype))
        error = _relative_error([product.cpu().double()], [exact])
        if not error <= bound:
            raise FailedError(
                expected=f"products of matrices in {dtype} within {bound:g}",
                got=f"a relative error of {error:.2g}",
                way_out="The device or its driver is broken: try another GPU",
            )
    if bench.device.type == "cuda" and not bfloat16_pays(bench.device):
        raise FailedError(
            expected="a GPU that computes in bfloat16",
            got=torch.cuda.get_device_name(bench.device),
            way_out='Set model.precision = "float32", or take a GPU of 2020 or later',
        )
    if bench.device.type == "cuda":
        return f"{torch.cuda.device_count()} × {torch.cuda.get_device_name(bench.device)}, bfloat16"
    return f"no GPU: the checks run on the processor (torch {torch.__version__})"


async def check_engine(bench: Bench) -> str:
    """The local engine's log-probabilities are those of transformers."""
    engine = LocalEngine(bench.learner.policy.causal_lm)
    try:
        return await _compared(bench, engine, EngineSettings())
    finally:
        await engine.close()


async def _compared(bench: Bench, engine: TrainableEngine, settings: EngineSettings) -> str:
    with SamplerCheck(bench.learner, engine, settings) as check:
        await check.run_if_due(0)
        _require_compared(check)
    return "log-probabilities equal transformers'"


def _require_compared(check: SamplerCheck) -> None:
    if not check.compared:
        raise FailedError(
            expected="completions of the engine to compare",
            got="only errors, which are in the lines above",
            way_out="See its log",
        )


async def check_attention(bench: Bench) -> str:
    """Packed rows give the outputs and gradients of torch's SDPA over each sequence alone."""
    module = load_model(resolve_model(MODEL), dtype=torch.float32, device=bench.device)
    module.requires_grad_(requires_grad=True)
    groups = await bench.chains()
    samples = [one for g in groups for chain in g.members for one in make_samples(chain)]
    forward = Forward(module, dtype=torch.float32)
    if not forward.body.shares_prefixes:
        raise FailedError(
            expected="hidden states of packed rows like those of single sequences",
            got="others, so that learners would fall back to padding",
            way_out="The attention kernel of this device is wrong: report it with the line above",
        )
    parameters = list(module.parameters())
    ours = _packed(forward, samples, bench.device)
    theirs = [_alone(module, sample) for sample in samples]
    by_output = _relative_error(ours, theirs)
    by_gradient = _relative_error(
        *(torch.autograd.grad(torch.cat(x).square().sum(), parameters) for x in (ours, theirs))
    )
    if not max(by_output, by_gradient) <= ATTENTION_ERROR:
        raise FailedError(
            expected=f"outputs and gradients within {ATTENTION_ERROR:g} of SDPA",
            got=f"relative errors of {by_output:.2g} and {by_gradient:.2g}",
            way_out="Report it: no run on this device can be trusted",
        )
    return f"relative errors: outputs {by_output:.1g}, gradients {by_gradient:.1g}"


def _packed(forward: Forward, samples: Sequence[Sample], device: torch.device) -> list[Tensor]:
    """Return the log-probabilities of each sample, computed in rows that samples share."""
    found: dict[int, Tensor] = {}
    for row in pack(samples, budget=4096):
        targets = targets_of(row, samples, device)
        logprobs_K = forward.logprobs(row, targets)
        found |= {p.sample: logprobs_K[targets.sample_K == p.sample] for p in row.places}
    return [found[number] for number in range(len(samples))]


def _alone(module: Any, sample: Sample) -> Tensor:
    ids = torch.tensor([sample.token_ids], device=module.device)
    positions = trained_positions(sample)
    logits = module(input_ids=ids).logits[0, [p - 1 for p in positions]]
    logprobs = (logits / (sample.temperature or 1.0)).log_softmax(-1)
    chosen: Tensor = logprobs.gather(1, ids[0, positions, None])[:, 0]
    return chosen


async def check_vllm(bench: Bench) -> str:
    """A vLLM server starts, and its log-probabilities are the learner's."""
    settings = _vllm_settings(bench)
    bench.vllm = await _started(bench, settings)
    return await _compared(bench, bench.vllm, settings)


def _vllm_settings(bench: Bench, **options: Any) -> EngineSettings:
    try:
        find_command(None)
    except ConfigError as error:
        raise SkippedError(str(error)) from error
    # The learner has the first GPU, and a server shares it where there is no other.
    last = max(torch.cuda.device_count() - 1, 0)
    gpus = (last,) if bench.device.type == "cuda" else ()
    arguments = ("--gpu-memory-utilization", "0.3") if gpus else ()
    return EngineSettings(name="vllm", check_every=1, gpus=gpus, arguments=arguments, **options)


async def _started(bench: Bench, settings: EngineSettings) -> TrainableEngine:
    policy = bench.learner.policy
    spec = EngineSpec(
        settings=settings,
        folder=policy.folder,
        load=policy.for_engine,
        dtype=str(policy.compute_dtype).removeprefix("torch."),
        context_length=512,
        concurrency=8,
        log_folder=bench.folder,
    )
    engine = make_engine(spec)
    bench.stack.push_async_callback(engine.close)
    return engine


async def check_folder(bench: Bench) -> str:
    """Weights that were trained arrive by a folder: at vLLM, else at a model read from it."""
    if bench.vllm is not None:
        settings = EngineSettings(name="vllm", check_every=1)
        with SamplerCheck(bench.learner, bench.vllm, settings) as check:
            async with publishing(
                bench.learner, bench.vllm, bench.folder / "published", check.run_if_due
            ) as publisher:
                await bench.learn()
                await publisher.publish(1)
                _require_compared(check)
        return "vLLM samples from the new weights"
    await bench.learn()
    weights = bench.learner.weights(WeightsFolder, bench.folder / "written")
    assert isinstance(weights, WeightsFolder), "the form that was asked for"
    policy = bench.learner.policy
    module = load_model(weights.path, dtype=policy.compute_dtype, device=bench.device)
    engine = LocalEngine(module)
    try:
        await _compared(bench, engine, EngineSettings())
    finally:
        await engine.close()
    return "a model read from the folder has the new weights (vLLM was not run)"


async def check_stream(bench: Bench) -> str:
    """Weights that were trained arrive as a stream of tensors: by NCCL where that can be had."""
    by_nccl = bench.vllm is not None and torch.cuda.device_count() > 1 and find_spec("vllm")
    if by_nccl:
        settings = _vllm_settings(bench, weights="nccl")
        engine: TrainableEngine = await _started(bench, settings)
    else:
        settings = EngineSettings()
        policy = bench.learner.policy
        module = load_model(policy.folder, dtype=policy.compute_dtype, device=bench.device)
        engine = LocalEngine(module)
        bench.stack.push_async_callback(engine.close)
    await bench.learn()
    await engine.publish(bench.learner.weights(NamedTensors, bench.folder / "unused"), 1)
    await _compared(bench, engine, settings)
    if by_nccl:
        return "vLLM samples from weights that came by NCCL"
    return (
        "the local engine samples from the streamed weights (not NCCL: that needs two GPUs, and "
        "vLLM in this environment)"
    )


async def check_grpo(bench: Bench) -> str:
    """One step of GRPO changes the weights, and nothing keeps it from learning."""
    settings = bench.settings("grpo", device=bench.device.type)
    source = Source(agent=_agent(), tasks=ROWS)
    result = await Trainer(source, settings, progress=RunProgress(quiet=True)).run_async()
    before, after = (
        load_file(folder / "model.safetensors") for folder in (resolve_model(MODEL), result.model)
    )
    changed = [name for name in after if not torch.equal(after[name], before[name].float())]
    findings = [str(finding) for finding in result.findings]
    if not changed or findings:
        raise FailedError(
            expected="weights that change, and no finding",
            got=f"{len(changed)} of {len(after)} tensors changed; {'; '.join(findings) or 'none'}",
            way_out=f"See {result.folder}",
        )
    return f"{len(changed)} of {len(after)} tensors changed, no findings"


async def check_sharding(bench: Bench) -> str:
    """FSDP2 over all GPUs, or two processes without them, gives the update of one process."""
    gpus = torch.cuda.device_count()
    device, count = ("cuda", gpus) if gpus > 1 else ("cpu", 2)
    groups = await bench.chains()
    exact = {"model": {"precision": "float32"}}
    alone = _learner(bench.settings("alone", device=device, **exact))
    settings = bench.settings("sharded", device=device, learner={"processes": count}, **exact)
    parts = resolve_run(settings, sources=[Source(agent=_agent(), tasks=ROWS)])
    one = await uninterrupted(partial(alone.learn, groups), bench.thread)
    async with open_learner(parts, bench.folder) as learner:
        several = await uninterrupted(partial(learner.learn, groups, all_sampled), bench.thread)
        ask = partial(learner.logprobs, *_completion(groups))
        logprobs = await uninterrupted(ask, bench.thread)
    errors = {
        name: abs(several.metrics[name] / one.metrics[name] - 1) for name in ("loss", "grad_norm")
    }
    errors["logprobs"] = _largest_difference(logprobs, alone.logprobs(*_completion(groups)))
    listed = ", ".join(f"{name} {error:.1g}" for name, error in errors.items())
    over = "NCCL" if device == "cuda" else "gloo"
    if not max(errors.values()) <= SHARDED_ERROR:
        raise FailedError(
            expected=f"the loss, gradient and update of one process within {SHARDED_ERROR:g}",
            got=f"{count} processes over {over} that differ: {listed}",
            way_out="Report it; until then set learner.processes = 1",
        )
    return f"{count} processes over {over} differ from one by: {listed}"


async def check_memory(bench: Bench) -> str:
    """An update takes the memory that is estimated before a run."""
    policy = Policy.load(bench.settings("memory", device=bench.device.type).model)
    forward = Forward(policy.causal_lm, dtype=policy.compute_dtype)
    estimate = estimate_memory(forward, policy.trained, ROW_TOKENS)
    row, targets = completion_row([0], [0] * (ROW_TOKENS - 1), bench.device)
    with peak_memory(bench.device) as peak:
        forward.logprobs(row, targets).sum().backward()
    averages = estimate.state * (BYTES_PER_PARAMETER - 4) / BYTES_PER_PARAMETER
    expected = estimate.total - averages  # These are made by the optimizer, after the passes.
    ratio = expected / peak.bytes
    sizes = f"estimated {expected / 1e6:.0f} MB, measured {peak.bytes / 1e6:.0f} MB"
    if not ESTIMATED[0] <= ratio <= ESTIMATED[1]:
        raise FailedError(
            expected=f"an estimate of {ESTIMATED[0]:g} to {ESTIMATED[1]:g} times the measurement",
            got=f"{ratio:.2g}: {sizes}",
            way_out="Choose train.tokens_per_microbatch by trial, and report it",
        )
    return sizes


async def check_sandbox(bench: Bench) -> str:
    """Untrusted code can be isolated, for the environment `code` and the tool `python`."""
    found = await probe()
    if found.isolation is None:
        raise FailedError(
            expected="isolation for untrusted code",
            got="; ".join(found.missing),
            way_out=f"{ALLOW_NAMESPACES}, or install bubblewrap",
        )
    weaker = f", weaker than it could be: {'; '.join(found.missing)}" if found.missing else ""
    return f"{found.isolation}{weaker}"


Check = Callable[[Bench], Awaitable[str]]
CHECKS: dict[str, Check] = {
    "device": check_device,
    "engine": check_engine,
    "attention": check_attention,
    "vllm": check_vllm,
    "folder": check_folder,
    "stream": check_stream,
    "grpo": check_grpo,
    "sharding": check_sharding,
    "memory": check_memory,
    "sandbox": check_sandbox,
}


async def run_check(name: str, bench: Bench) -> bool:
    """Run a check and print its verdict; return whether it failed."""
    begun, failed = time.monotonic(), False
    try:
        with boundary(RunError, f"the check {name}"):
            verdict = f"pass  {await CHECKS[name](bench)}"
    except AgentFlyError as error:
        match error.__cause__:
            case SkippedError() as reason:
                verdict = f"skip  {reason}"
            case FailedError() as reason:
                verdict, failed = f"FAIL  {reason}", True
            case _:
                verdict, failed = f"FAIL  {error}", True
    print(f"{name:<10}{verdict}  ({time.monotonic() - begun:.0f} s)", flush=True)
    return failed


async def run_checks(names: Sequence[str]) -> int:
    """Run checks by name, all of them if one fails, too; return how many failed."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="agentfly-acceptance-") as folder:
        async with AsyncExitStack() as stack:
            bench = Bench(folder=Path(folder), stack=stack)
            stack.callback(bench.thread.shutdown)
            for name in names:
                failures += await run_check(name, bench)
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=", ".join(CHECKS))
    names = parser.parse_args(arguments).checks or list(CHECKS)
    if unknown := [name for name in names if name not in CHECKS]:
        parser.error(f"unknown check {unknown[0]!r}: choose from {', '.join(CHECKS)}")
    failures = asyncio.run(run_checks(names))
    print(f"{failures} of {len(names)} checks failed" if failures else "no check failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
