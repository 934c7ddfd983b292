"""Folders that vLLM can reload its weights from."""

import json
from pathlib import Path

from agentfly.errors import ConfigError, boundary

HEAD = "lm_head.weight"


def require_head(folder: Path) -> None:
    """Raise ConfigError unless a folder holds the output head, tied to the embeddings or not.

    A running vLLM ties the head once, at its start. Reloading a folder without the head changes the
    embeddings and leaves the head as it was, without an error.
    """
    if HEAD not in _tensor_names(folder):
        raise ConfigError(
            f"{folder} has no tensor {HEAD!r}: vLLM would keep its old head beside the new "
            "embeddings. Write the head into the folder too, also where the embeddings are tied"
        )


def _tensor_names(folder: Path) -> set[str]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder} has no .safetensors file: expected a Hugging Face folder")
    return {name for file in files for name in _header(file)}


def _header(file: Path) -> dict[str, object]:
    """Read the names and places of a file's tensors: a length of eight bytes, then JSON."""
    with boundary(ConfigError, f"reading the tensors' names in {file}"), file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header: dict[str, object] = json.loads(opened.read(length))
    return header
