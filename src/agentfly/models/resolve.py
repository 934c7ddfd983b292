"""From a model's name to a folder that `AutoModelForCausalLM.from_pretrained` loads."""

import re
from pathlib import Path

from agentfly.errors import ConfigError
from agentfly.models import model_hub, zoo
from agentfly.models.progress import Progress, quiet
from agentfly.runtime.names import suggestion

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def resolve_model(
    name: str | Path, *, progress: Progress = quiet, trust_remote_code: bool = False
) -> Path:
    """Return the absolute folder of a model: a local folder, a built-in model, or a hub id.

    A folder wins over a built-in model of the same name. Built-in models and hub models are
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
    if folder.is_dir():
        raise ConfigError(
            f"{text!r} is not a model's folder: it has no config.json. Expected one written by "
            "`save_pretrained`, with config.json, weights and tokenizer"
        )
    if _HUB_ID.fullmatch(text):
        return model_hub.download(text, trust_remote_code=trust_remote_code)
    raise ConfigError(_unknown(text))


def _unknown(text: str) -> str:
    what = (
        f"there is no folder {text!r}" if re.search(r"[/\\~]", text) else f"unknown model {text!r}"
    )
    return (
        f"{what}. {suggestion(text, zoo.names())} "
        "A model is a local folder, one of these names, or a hub id such as 'organisation/name'"
    )
