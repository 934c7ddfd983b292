"""Checks before anything slow starts: settings of a warm start, and what this machine lacks.

Every name is looked up and every file is searched for; nothing is fetched, and no weights are
loaded.
"""

import difflib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from agentfly.agents.registry import (
    find_kind,
    find_mask,
)
from agentfly.config import (
    ModelSettings,
    Problem,
    RunSettings,
    TrackSettings,
)
from agentfly.config.sft_settings import SftSettings
from agentfly.engines.factory import placed_on_cluster
from agentfly.errors import ConfigError
from agentfly.models import resolve_model, zoo
from agentfly.models.adapters import base_name, is_adapter
from agentfly.runtime.extra import missing_packages
from agentfly.tasks import Rows, find_rows


def check_sft_settings(settings: SftSettings, *, base: Path | None = None) -> Iterator[Problem]:
    """Yield all problems in the settings of a warm start."""
    data = settings.data
    for key, names in {"files": data.files, "held_out": data.held_out}.items():
        for place, name in enumerate(names):
            yield from _tried(f"data.{key}.{place}", _find_conversations, name, base)
    yield from _tried("data.mask", find_mask, data.mask, base)
    yield from _tried("data.kind", find_kind, data.kind, base)
    yield from missing_requirements(settings.model, settings.track)


def missing_requirements(model: ModelSettings, track: TrackSettings) -> Iterator[Problem]:
    """Yield what the settings need and this machine lacks: a model, a GPU, a tracker's package."""
    yield from _tried("model.name", _find_model, model.name, None)
    if model.device == "cuda" and not _has_gpu():
        yield Problem(key="model.device", text="torch finds no GPU here: choose 'cpu' or 'auto'")
    if model.lora is not None and model.lora.base_bits is not None:
        purpose = f"A base in {model.lora.base_bits} bits"
        if lacking := missing_packages(["bitsandbytes"], extra="quantized", purpose=purpose):
            yield Problem(key="model.lora.base_bits", text=lacking)
    for place, name in enumerate(track.trackers):
        if find_spec(name) is None:
            extra = "train" if name == "tensorboard" else name
            text = f"{name!r} is not installed: pip install 'agentfly[{extra}]', or take it out"
            yield Problem(key=f"track.trackers.{place}", text=text)


def learner_problems(settings: RunSettings) -> Iterator[Problem]:
    """Yield what several learner processes can't do."""
    lora = settings.model.lora
    if settings.learner.sharded and lora is not None and lora.base_bits is not None:
        text = (
            f"a base in {lora.base_bits} bits can't be spread over processes or offloaded: leave "
            "out [learner], or base_bits"
        )
        yield Problem(key="model.lora.base_bits", text=text)


def cluster_problems(settings: RunSettings) -> Iterator[Problem]:
    """Yield what is wrong with the table `[cluster]`, without importing Ray."""
    if settings.cluster is None:
        return
    if text := missing_packages(["ray"], extra="ray", purpose="A run on a cluster"):
        yield Problem(key="cluster.ray", text=text)
    if not placed_on_cluster(settings.engine, settings.cluster):
        return
    if settings.engine.gpus:
        text = (
            "is for servers that are started here, and Ray gives those on its nodes their GPUs: "
            "leave it out, and set cluster.engine_gpus to the number for each of them"
        )
        yield Problem(key="engine.gpus", text=text)
    if settings.engine.weights == "nccl":
        text = (
            "'nccl' reaches only servers that this process started or joined: choose 'folder', "
            'name running servers in engine.urls, or set cluster.engines = "here"'
        )
        yield Problem(key="engine.weights", text=text)


def find_existing(name: str, *, base: Path | None) -> Rows:
    """Find the rows of a name; raise ConfigError if a file is missing. Functions are not called."""
    rows = find_rows(name, base=base)
    if isinstance(rows, Path) and not rows.exists():
        raise ConfigError(
            f"there is no {str(rows)!r}.{_neighbor(rows)} Expected a file (a relative path starts "
            "at the settings' folder), `module:function` or `hub:dataset`"
        )
    return rows


def _find_conversations(name: str, *, base: Path | None) -> None:
    """Raise ConfigError if a file is missing, and say what makes one."""
    try:
        find_existing(name, base=base)
    except ConfigError as error:
        if not name.endswith(".jsonl"):
            raise
        raise ConfigError(
            f"{error}. A file of demonstrations is made by "
            "`agentfly envs demonstrate NAME … --out FILE`"
        ) from error


def _neighbor(path: Path) -> str:
    """Return a suggestion of a file with a similar name, if there is one."""
    names = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _find_model(name: str, *, base: Path | None) -> None:
    """Raise ConfigError unless a model's folder exists. Downloads are left to the run."""
    del base  # models are named from the working directory
    organization, slash, rest = name.partition("/")
    on_a_hub = slash and organization[:1].isalnum() and rest and "/" not in rest
    if is_adapter(Path(name).expanduser()):
        _find_model(base_name(Path(name).expanduser()), base=None)  # merged by the run itself
        return
    if name not in zoo.names() and (not on_a_hub or Path(name).is_dir()):
        resolve_model(name)


def _has_gpu() -> bool:
    import torch  # only where one is asked for

    return torch.cuda.is_available()


def _tried(
    key: str, find: Callable[..., object], name: str | None, base: Path | None
) -> Iterator[Problem]:
    try:
        if name is not None:
            find(name, base=base)
    except ConfigError as error:
        yield Problem(key=key, text=str(error))
