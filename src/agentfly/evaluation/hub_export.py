"""A trained model as a folder for a model hub: weights, tokenizer, and a card with its curve.

README.md          the card: held-out numbers, curve, how to use it, settings
config.json, *.safetensors, tokenizer.json, …
reward.png         the curve
agentfly.toml      all settings of the run
"""

import re
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.evaluation.checkpoint_names import NamedCheckpoints
from agentfly.models import resolve_model
from agentfly.models.loading import tokenizer_files
from agentfly.observe import MetricsRecord, plot_curves
from agentfly.observe.estimate import interval_text
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.whole_file import whole_file

MODEL_FILES = ("config.json", "generation_config.json", "*.safetensors", "*.safetensors.index.json")
SETTINGS = "agentfly.toml"
CURVE = "reward.png"


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
    # Last: a folder with a card is whole.
    _write(out / "README.md", "\n".join(card(found.run, step, has_curve=has_curve)) + "\n")
    return out


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def card(run: RecordedRun, step: int, *, has_curve: bool) -> Iterator[str]:
    """Yield the lines of the model card."""
    base = str(run.settings.get("model", {}).get("name", "unknown"))
    algorithm = str(run.settings.get("algorithm", {}).get("name", "-"))
    yield from ("---", "library_name: transformers", "pipeline_tag: text-generation")
    if "/" in base and not Path(base).exists():  # an id of the hub, which links to its card
        yield f"base_model: {base}"
    yield from ("tags:", "- agentfly", "- reinforcement-learning", "- agent", "---", "")
    yield from (f"# {run.name}", "")
    yield (
        f"`{base}`, trained by reinforcement learning ({algorithm}, step {step} of "
        f"{run.planned_steps or run.step}) with AgentFly {version('agentfly')}."
    )
    yield ""
    yield from _numbers(run.records, step)
    if has_curve:
        yield from ("## Curve", "", f"![Reward by step]({CURVE})", "")
    yield from ("## Tasks", "")
    yield from _sources(run)
    yield from (
        "",
        "## Settings",
        "",
        f"As the run had them, in `{SETTINGS}`:",
        "",
    )
    yield from ("```toml", *_bare(published_config(run)), "```")


def _numbers(records: list[MetricsRecord], step: int) -> Iterator[str]:
    held_out = {one.step: one.metrics for one in records if "eval/reward" in one.metrics}
    if not held_out:
        yield from ("It was not evaluated on held-out tasks during the run.", "")
        return
    yield from ("## Held-out tasks", "", "| | reward (95% interval) | solved | tasks |")
    yield "|---|---|---|---|"
    for at in sorted({min(held_out), *(one for one in held_out if one == step), max(held_out)}):
        metrics = held_out[at]
        low, high = (metrics.get(f"eval/reward_{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f" {interval_text(low, high)}"
        title = f"after step {at}" if at else "before training"
        yield (
            f"| {title}{' (these weights)' if at == step else ''} "
            f"| {metrics['eval/reward']:.2f}{interval} | {metrics.get('eval/solved', 0.0):.0%} "
            f"| {metrics.get('eval/tasks', 0.0):.0f} |"
        )
    yield ""


def _sources(run: RecordedRun) -> Iterator[str]:
    for source in run.settings.get("source", ()):
        parts = {name: source.get(name) for name in ("environment", "tasks", "tools", "reward")}
        known = ", ".join(f"{name} `{value}`" for name, value in parts.items() if value)
        yield f"- {source.get('name', 'default')}: {known}"


def published_config(run: RecordedRun) -> str:
    """Return a run's settings without the folder of runs, a path of the machine that it ran on."""
    return re.sub(r"^folder = .*\n", "", run.config, count=1, flags=re.MULTILINE)


def _bare(config: str) -> Iterator[str]:
    """Yield the lines of a settings file without comments and empty lines."""
    for line in config.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line
