"""Loading a model's folder into memory."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, boundary


def load_model(folder: str | Path, *, dtype: Any, device: Any) -> Any:
    """Load a causal language model with transformers, quietly, ready to be sampled from.

    Raises:
        ConfigError: transformers is not installed, or the folder is damaged or not a model's.
    """
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ConfigError(
            f"running a model here needs the extra `local` ({error.name} is missing): "
            "pip install 'agentfly[local]'"
        ) from error
    with no_progress_bars(), _told(folder):
        model = AutoModelForCausalLM.from_pretrained(Path(folder).absolute(), dtype=dtype)
    with boundary(ConfigError, f"moving the model {folder} to {device}"):
        return model.to(device).eval()


def context_length(folder: str | Path) -> float:
    """Read from a model's folder how many tokens it can see at once."""
    file = Path(folder) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} can't be read: {error}. A model's folder is what `save_pretrained` writes"
        ) from error
    text = config.get("text_config", config)
    return float(text.get("max_position_embeddings") or math.inf)


@contextmanager
def _told(folder: str | Path) -> Iterator[None]:
    """Say what to do about a folder that can't be loaded, whatever a library says of it."""
    try:
        with boundary(ConfigError, f"loading {folder}"):
            yield
    except ConfigError as error:
        raise ConfigError(
            f"{error}. Are its files whole, and of a kind that your version of transformers knows? "
            "Fetch it again, or write it anew with `save_pretrained`"
        ) from error


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep transformers' own bars from the terminal."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
