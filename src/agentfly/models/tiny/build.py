"""Folders of tiny models: the shipped one, random ones, and ones pre-trained here."""

import json
import shutil
from importlib.resources import files
from pathlib import Path

from agentfly.models.model_cache import Progress, sha256
from agentfly.models.tiny.pretrain import LOG_NAME, SHAPES, Recipe, pretrain, random_model
from agentfly.models.tiny.tokenizer import load_tokenizer, train_tokenizer

RANDOM_SEED = 0

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

RECIPES = {
    "tiny": Recipe(size="tiny"),
    "tiny-5m": Recipe(size="tiny-5m", lr=1e-3),
    "tiny-15m": Recipe(size="tiny-15m", lr=7e-4),
}
"""Pre-training settings of each size; the larger ones need smaller steps."""


def shipped_folder() -> Path:
    """Return the folder inside the package that holds the model `tiny`."""
    return Path(str(files(__package__).joinpath("shipped")))


def build_random(folder: Path, progress: Progress) -> None:
    """Fill a folder with a model of the size of `tiny` and random weights."""
    _copy_tokenizer(folder)
    model = random_model(SHAPES["tiny"], load_tokenizer(folder), seed=RANDOM_SEED)
    model.save_pretrained(folder)
    progress("done", 1.0)


def build_pretrained(folder: Path, progress: Progress, *, recipe: Recipe) -> None:
    """Fill a folder with a model pre-trained here, over the shipped tokenizer."""
    _copy_tokenizer(folder)
    model = pretrain(recipe, load_tokenizer(folder), folder, progress)
    model.save_pretrained(folder)
    _log_weights(folder)
    progress("done", 1.0)


def build_tokenizer(folder: Path) -> None:
    """Train the shared tokenizer again."""
    train_tokenizer().save_pretrained(folder)


def _copy_tokenizer(folder: Path) -> None:
    """Copy the shared files unchanged: a tokenizer that was used also saves its last padding."""
    for name in TOKENIZER_FILES:
        if not (folder / name).exists():
            shutil.copyfile(shipped_folder() / name, folder / name)


def _log_weights(folder: Path) -> None:
    """End the log with the hash of the weights that the run gave."""
    record = {"model.safetensors": sha256(folder / "model.safetensors")}
    with (folder / LOG_NAME).open("a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")
