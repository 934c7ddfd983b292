"""Loading a model's folder into memory."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError, boundary

TOKENIZER_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.tiktoken",
)
"""Files of the tokenizer and chat template, which are copied to every saved model."""


def tokenizer_files(folder: Path) -> list[Path]:
    """List the files of a model's tokenizer and chat template."""
    return [f for pattern in TOKENIZER_FILES for f in folder.glob(pattern) if f.is_file()]


def load_model(
    folder: str | Path, *, dtype: Any, device: Any, trust_remote_code: bool = False
) -> Any:
    """Load a causal language model with transformers, quietly, ready to be sampled from.

    Args:
        folder: As `save_pretrained` writes it.
        dtype: Of the weights in memory.
        device: Where they go.
        trust_remote_code: Run Python code that the folder carries, with this user's rights.

    Raises:
        ConfigError: transformers is not installed, the folder is damaged or not a model's, or it
            needs code of its own that is not trusted.
    """
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise ConfigError(
            f"running a model here needs the extra `local` ({error.name} is missing): "
            "pip install 'agentfly[local]'"
        ) from error
    with no_progress_bars(), _report_loading_errors(folder):
        model = AutoModelForCausalLM.from_pretrained(
            Path(folder).absolute(), dtype=dtype, trust_remote_code=trust_remote_code
        )
    with boundary(ConfigError, f"moving the model {folder} to {device}"):
        return model.to(device).eval()


def context_length(folder: str | Path) -> float:
    """Read from a model's folder how many tokens it can see at once."""
    config = read_config(folder)
    text = config.get("text_config", config)
    return float(text.get("max_position_embeddings") or math.inf)


def read_config(folder: str | Path) -> dict[str, Any]:
    """Read the `config.json` of a model's folder."""
    file = Path(folder) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError(f"expected an object, got {type(config).__name__}")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file} can't be read: {error}. A model's folder is what `save_pretrained` writes"
        ) from error
    return config


def code_files(folder: str | Path) -> list[str]:
    """List the Python files that a model's folder asks to be run: `["modeling_own.py"]`."""
    classes = read_config(folder).get("auto_map")
    names = classes.values() if isinstance(classes, dict) else ()
    modules = {str(name).rpartition("--")[2].partition(".")[0] for name in names if name}
    return sorted(f"{module}.py" for module in modules)


@contextmanager
def _report_loading_errors(folder: str | Path) -> Iterator[None]:
    """Raise ConfigError with the way out for a folder that can't be loaded."""
    try:
        with boundary(ConfigError, f"loading {folder}"):
            yield
    except ConfigError as error:
        if "trust_remote_code" in str(error):
            raise ConfigError(
                f"the model in {folder} needs Python code of its own "
                f"({', '.join(code_files(folder))}), which is not run unless you say so: read it, "
                "then set model.trust_remote_code = true (trust_remote_code=True of an Agent, "
                "--trust-remote-code of `agentfly chat`), or choose another model"
            ) from error
        raise ConfigError(
            f"{error}. Are its files whole, and of a kind that your version of transformers knows? "
            "Fetch it again, or write it again with `save_pretrained`"
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
