"""Loading a model's folder into memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError


def load_model(folder: str | Path, *, dtype: Any, device: Any) -> Any:
    """Load a causal language model with transformers, quietly, ready to be sampled from."""
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ConfigError(
            f"running a model here needs the extra `local` ({error.name} is missing): "
            "pip install 'agentfly[local]'"
        ) from error
    with no_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(Path(folder).absolute(), dtype=dtype)
    return model.to(device).eval()


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
