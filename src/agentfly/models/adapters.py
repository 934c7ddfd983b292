"""LoRA adapters as models: a folder of peft, merged into the base model that its config names.

    resolve_model("runs/sums/checkpoints/step_8")     # the merged model, kept in the model cache
    merge_adapter("runs/sums/checkpoints/step_8", "sums-merged")

Everything that takes a model's folder takes an adapter's, too. Adapters are merged in float32, as
they were trained.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from agentfly.errors import ConfigError, boundary
from agentfly.models import model_cache
from agentfly.models.loading import load_model, no_progress_bars, tokenizer_files
from agentfly.models.model_cache import Progress, quiet
from agentfly.runtime.extra import import_extra

CONFIG = "adapter_config.json"
_WEIGHTS = "adapter_model.*"

Resolve = Callable[[str], Path]
"""Returns the folder of a model's name."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder holds adapters and no model of its own."""
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def base_name(folder: Path) -> str:
    """Return the name of the base model that an adapter's config gives."""
    file = folder / CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        name = config.get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"{file} can't be read: {error}. An adapter's folder is what peft's `save_pretrained` "
            "writes: copy it again, or choose another checkpoint"
        ) from error
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{file} does not name its base model: expected `base_model_name_or_path`, got "
            f"{name!r}. Write the base's folder or hub id into it"
        )
    if not list(folder.glob(_WEIGHTS)):
        raise ConfigError(
            f"{str(folder)!r} has an {CONFIG}, but no adapter_model.safetensors: the adapter is "
            "not whole. Copy it again, or choose another checkpoint"
        )
    return name


def name_base(folder: Path, name: str) -> None:
    """Write the base model's name into an adapter's config; a local folder as an absolute path.

    peft itself writes the folder from which the base was loaded, which another machine lacks. It
    is changed afterwards, because peft would look for such a name on a hub while it saves.
    """
    local = Path(name).expanduser()
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = str(local.absolute()) if local.is_dir() else name
    (folder / CONFIG).write_text(json.dumps(config, indent=2), encoding="utf-8")


def merged_folder(folder: Path, resolve: Resolve, *, progress: Progress = quiet) -> Path:
    """Return the folder of the merged model in the cache; merge it first if it is not there.

    Args:
        folder: An adapter's folder.
        resolve: Returns the base model's folder.
        progress: Called with what is being done.
    """
    base = _base_folder(folder, resolve)
    name = f"merged-{_identity(folder, base)}"
    if (there := model_cache.cached(name)) is not None:
        return there

    def build(half: Path, progress: Progress) -> None:
        progress(f"merging the adapter {folder}", 0.0)
        _merge(folder, base, half, "float32")

    needs = 2 * sum(file.stat().st_size for file in base.glob("*.safetensors"))
    return model_cache.make(name, build, needs=needs, progress=progress)


def merge_adapter(
    folder: str | Path,
    out: str | Path,
    resolve: Resolve,
    *,
    dtype: Literal["float32", "bfloat16"] = "float32",
) -> Path:
    """Merge an adapter into its base model, and write a plain Hugging Face folder.

    Args:
        folder: An adapter's folder: a checkpoint of a run, or any that peft wrote.
        out: A folder that does not exist yet, or is empty.
        resolve: Returns the base model's folder.
        dtype: Dtype of the written weights.
    """
    folder, out = Path(folder).expanduser(), Path(out).expanduser()
    if not is_adapter(folder):
        raise ConfigError(
            f"{str(folder)!r} is not an adapter's folder: expected one with {CONFIG}, as peft and "
            "the checkpoints of a run with `model.lora` have it. A model that is whole needs no "
            "merging"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{str(out)!r} is there already: name a new folder for the merged model")
    base = _base_folder(folder, resolve)
    out.mkdir(parents=True, exist_ok=True)
    _merge(folder, base, out, dtype)
    return out


def _base_folder(folder: Path, resolve: Resolve) -> Path:
    name = base_name(folder)
    try:
        return resolve(name)
    except ConfigError as error:
        raise ConfigError(
            f"the base model of the adapter {str(folder)!r} is not here: {error}. Correct "
            f"`base_model_name_or_path` in {folder / CONFIG}"
        ) from error


def _identity(folder: Path, base: Path) -> str:
    """Hash what the merged model is made of: the adapter, and which base."""
    digest = hashlib.sha256(str(base).encode())
    for file in sorted((*folder.glob("adapter_*"), *tokenizer_files(folder))):
        digest.update(file.name.encode() + file.read_bytes())
    for file in sorted(base.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _merge(folder: Path, base: Path, out: Path, dtype: str) -> None:
    peft = import_extra("peft", extra="train", purpose=f"using the adapter {folder}")
    import torch

    model: Any = load_model(base, dtype=torch.float32, device="cpu")
    doing = f"merging the adapter {folder} into {base}"
    with boundary(ConfigError, doing), no_progress_bars(), warnings.catch_warnings():
        # peft asks for an attribute that transformers 5.23 has deprecated.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
        wrapped = peft.PeftModel.from_pretrained(model, str(folder.absolute()))
        merged = wrapped.merge_and_unload()
        merged.to(getattr(torch, dtype)).save_pretrained(out)
    for file in (*tokenizer_files(base), *tokenizer_files(folder)):
        shutil.copy(file, out / file.name)
