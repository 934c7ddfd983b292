"""The engine `local` of the settings."""

import torch

from agentfly.engines.factory import EngineSpec
from agentfly.engines.local.engine import LocalEngine
from agentfly.modeling.shared_view import bfloat16_pays


def make_local(spec: EngineSpec) -> LocalEngine:
    """Make an engine in this process, which replicas share evenly."""
    dtype = spec.precision or _fast_dtype()
    count = spec.settings.count
    return LocalEngine(
        spec.load(dtype),
        spec.tokenizer,
        dtype=getattr(torch, dtype),
        version=spec.version,
        max_running=spec.own_concurrency,
        cache_bytes=spec.cache_bytes // count,
        deterministic=spec.deterministic,
        threads=max(1, torch.get_num_threads() // count) if count > 1 else None,
    )


def _fast_dtype() -> str:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return "bfloat16" if bfloat16_pays(device) else "float32"
