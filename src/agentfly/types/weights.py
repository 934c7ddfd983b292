"""What a learner publishes to the engines that sample from it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class SharedTensors:
    """The tensors of the module that an engine was made from, changed in place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTensors:
    """A stream of all tensors of a model, each with its name in the state dict."""

    stream: Callable[[], Iterable[tuple[str, Any]]]
    """Begins the stream again at each call, once for every engine that reads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFolder:
    """A Hugging Face folder, as `save_pretrained` writes it, that the engine can read."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterFolder:
    """A LoRA adapter, as peft's `save_pretrained` writes it, that the engine can read."""

    path: Path
    """A new folder for each version: vLLM distinguishes the cached keys of two adapters by it."""
    name: str = "policy"
    """Name that requests use; publishing under the same name replaces the adapter."""


Weights = SharedTensors | NamedTensors | WeightsFolder | AdapterFolder
"""One version of the weights, in one of the forms that engines take."""
