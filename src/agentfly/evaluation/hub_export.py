"""A trained model as a folder for a model hub: weights, tokenizer, and a card with its curve.

README.md          the card: held-out numbers, how to use the model, curve, settings
config.json, *.safetensors, tokenizer.json, …
example.json       the worked examples that the run showed its model, if it did
examples.jsonl     those of each source as rows, for `agentfly chat --examples`
reward.png         the curve
agentfly.toml      all settings of the run
"""

import json
import shutil
from pathlib import Path

from agentfly.agents.trial_file import read_trials, write_trials
from agentfly.errors import ConfigError
from agentfly.evaluation.checkpoint_names import NamedCheckpoints
from agentfly.evaluation.model_card import (
    CURVE,
    EXAMPLE,
    SETTINGS,
    card,
    examples_file,
    published_config,
)
from agentfly.evaluation.run_sources import examples_of
from agentfly.models import resolve_model
from agentfly.models.loading import tokenizer_files
from agentfly.observe import plot_curves
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.whole_file import whole_file

MODEL_FILES = ("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json")


def export_to_hub(found: NamedCheckpoints, out: Path) -> Path:
    """Write a checkpoint of a run as a folder that a hub takes as it is.

    Args:
        found: One checkpoint; adapters are merged into their base model.
        out: A folder that does not exist yet, or is empty.
    """
    ((step, folder),) = found.folders.items()
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} is there already: name a new folder with --out")
    model = resolve_model(folder)
    out.mkdir(parents=True, exist_ok=True)
    files = [file for pattern in MODEL_FILES for file in model.glob(pattern)]
    for file in {*files, *tokenizer_files(model)}:
        shutil.copyfile(file, out / file.name)
    has_curve = any("reward/mean" in record.metrics for record in found.run.records)
    if has_curve:
        plot_curves(found.run.records, out / CURVE, None, f"Reward of {found.run.name}")
    _write(out / SETTINGS, published_config(found.run))
    _write_examples(found.run, out)
    # Last: a folder with a card is whole.
    _write(out / "README.md", "\n".join(card(found.run, step, has_curve=has_curve)) + "\n")
    return out


def _write_examples(run: RecordedRun, out: Path) -> None:
    """Write the run's worked examples: without them the model may do nothing that it learned."""
    examples = examples_of(run)
    if not examples:
        return
    write_trials(out / EXAMPLE, read_trials(run.path / EXAMPLE))
    for source, example in examples.items():
        row = {"messages": [message.to_dict() for message in example.messages]}
        _write(out / examples_file(source, examples), json.dumps(row, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())
