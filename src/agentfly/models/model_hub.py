"""Models of a Hugging Face hub, by their id `organization/name`."""

import json
import re
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from agentfly.errors import ConfigError, boundary
from agentfly.models.loading import code_files

ANSWER_SECONDS = 8.0
"""Time limit for the hub's first answer; the libraries would try for a minute."""

_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
"""Settings, tokenizer, and the weights in one format, not the same weights three times over."""
_CODE = "*.py"
"""Fetched only for a user who trusts it."""
_WEIGHTS = re.compile(r"(?!.*-\d+-of-\d+).*\.safetensors|pytorch_model\.bin")
"""Weights in one file; a shard alone is none."""


def download(name: str, *, trust_remote_code: bool = False) -> Path:
    """Return the local snapshot of a hub model; download it first if it is not here."""
    wanted = [*_WANTED, _CODE] if trust_remote_code else _WANTED
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
    except ImportError as error:
        raise ConfigError(
            f"the hub model {name!r} needs huggingface_hub, which is not installed: "
            "run `pip install 'agentfly[local]'`"
        ) from error
    with suppress(LocalEntryNotFoundError):
        folder = Path(snapshot_download(name, allow_patterns=wanted, local_files_only=True))
        if has_all_weights(folder) and (not trust_remote_code or _has_its_code(folder)):
            return folder
    _check_reachable(name)
    folder = _downloaded(name, wanted)
    if not has_all_weights(folder):
        raise ConfigError(
            f"the hub model {name!r} has no weights that can be loaded: expected config.json with "
            "model.safetensors or its shards. Choose a repository that has them"
        )
    return folder


def cached_config(name: str) -> Path | None:
    """Return the folder with the config.json of a hub model, if it was downloaded before."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = try_to_load_from_cache(name, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def has_all_weights(folder: Path) -> bool:
    """Return whether a folder has a model's settings and all its weights.

    A snapshot may lack them: a download broke off, or only the tokenizer was fetched.
    """
    if not (folder / "config.json").is_file():
        return False
    files = [path.name for path in folder.iterdir() if path.is_file()]
    if any(_WEIGHTS.fullmatch(name) for name in files):
        return True
    return any(_is_complete(folder / name) for name in files if name.endswith(".index.json"))


def _has_its_code(folder: Path) -> bool:
    return all((folder / name).is_file() for name in code_files(folder))


def _is_complete(index: Path) -> bool:
    """Return whether all shards exist that an index of weights names."""
    try:
        shards = set(json.loads(index.read_text())["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    return bool(shards) and all((index.parent / shard).is_file() for shard in shards)


def _downloaded(name: str, wanted: list[str]) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        with boundary(ConfigError, f"downloading {name!r} from the hub"):
            return Path(snapshot_download(name, allow_patterns=wanted))
    except ConfigError as error:
        if isinstance(error.__cause__, RepositoryNotFoundError):
            raise ConfigError(
                f"the hub has no model {name!r} that you may read. Check the spelling; for a "
                "private or gated model accept its terms there and set HF_TOKEN"
            ) from error
        raise


def _check_reachable(name: str) -> None:
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        trouble: str | None = "HF_HUB_OFFLINE is set"
    else:
        trouble = _trouble_reaching(constants.ENDPOINT)
    if trouble:
        raise ConfigError(
            f"there is no folder {name!r} here and no whole copy of a hub model of that id, and "
            f"{constants.ENDPOINT} can't be reached: {trouble}. Connect, or give a local folder, "
            "or a built-in model such as 'smollm2-135m-instruct', which needs only a package index"
        )


def _trouble_reaching(endpoint: str) -> str | None:
    """Send one request to the hub; return why there was no answer in time, or None."""
    outcome: list[str | None] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(endpoint, method="HEAD")
            urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()
            outcome.append(None)
        except urllib.error.HTTPError:
            outcome.append(None)  # It refused the request, but it is reachable.
        except (OSError, ValueError) as error:
            outcome.append(str(getattr(error, "reason", error)))

    # In a thread, because no timeout bounds the look-up of a host's name.
    thread = threading.Thread(target=ask, daemon=True, name="agentfly:hub")
    thread.start()
    thread.join(ANSWER_SECONDS)
    return outcome[0] if outcome else f"no answer within {ANSWER_SECONDS:g} s"
