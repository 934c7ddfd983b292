"""Low-rank adapters by peft: trained instead of the weights themselves (arXiv:2106.09685)."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from agentfly.config import LoraSettings
from agentfly.errors import ConfigError, boundary
from agentfly.runtime.extra import import_extra


def add_adapters(causal_lm: Any, settings: LoraSettings, *, seed: int) -> Any:
    """Put adapters into a model, in place, and return peft's wrapping of it."""
    peft = _peft()
    config = peft.LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules=list(settings.targets) if settings.targets else "all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), boundary(ConfigError, f"adding adapters of {settings!r}"):
        torch.manual_seed(seed)
        return peft.get_peft_model(causal_lm, config)


def save_adapters(wrapped: Any, folder: Path) -> None:
    """Write the adapters alone, as peft and transformers load them."""
    wrapped.save_pretrained(folder)


def restore_adapters(wrapped: Any, folder: Path) -> None:
    """Read back what `save_adapters` wrote, bit for bit."""
    peft = _peft()
    with boundary(ConfigError, f"reading the adapters in {folder}"):
        peft.set_peft_model_state_dict(wrapped, peft.load_peft_weights(str(folder), device="cpu"))


def merged(wrapped: Any) -> Any:
    """Return a plain model with the adapters added to copies of the weights."""
    return copy.deepcopy(wrapped).merge_and_unload()


@contextmanager
def adapters_off(module: Any) -> Iterator[None]:
    """Compute as the model did before it had adapters."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [layer for layer in module.modules() if isinstance(layer, BaseTunerLayer)]
    for layer in layers:
        layer.enable_adapters(enabled=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(enabled=True)


def _peft() -> Any:
    return import_extra("peft", extra="train", purpose="LoRA")
