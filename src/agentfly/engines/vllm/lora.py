"""Weights that are a LoRA adapter in a folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraAdapter:
    """An adapter that the server can read from its own disk.

    >>> await engine.load_weights(LoraAdapter(path="runs/a/adapters/7"), 7)     # doctest: +SKIP
    """

    path: str | Path
    """A folder written by peft's `save_pretrained`; a new one for each version, because vLLM tells
    the cached keys of one adapter from another's by name and path."""
    name: str = "policy"
    """What requests call it; the same name replaces the adapter in place."""
