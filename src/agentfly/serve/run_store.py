"""The runs of a folder as the viewer keeps them open: their indices, searches and tokenizers."""

import threading
from collections.abc import Sequence
from functools import cached_property
from http import HTTPStatus
from pathlib import Path

from agentfly.chat import load_tokenizer
from agentfly.errors import AgentFlyError, ConfigError
from agentfly.models import list_models
from agentfly.observe.chain_index import RunIndex
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_folder import MARK
from agentfly.runtime.http.messages import RefusalError
from agentfly.serve.text_search import TextSearch

MAX_OPEN = 16
"""Runs whose indices are kept in memory."""
MAX_SEARCHES = 8
"""Searches of a run whose results are kept."""


class OpenRun:
    """One run, and what was read of it so far."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.index = RunIndex(RecordedRun(path))
        self._searches: dict[str, TextSearch] = {}
        self._lock = threading.Lock()

    @property
    def run(self) -> RecordedRun:
        """The files as they are now: what was read before may have changed."""
        return RecordedRun(self.path)

    def search(self, text: str) -> TextSearch:
        """Return the search for a text, begun or continued."""
        with self._lock:
            found = self._searches.pop(text, None) or TextSearch(self.path, text)
            self._searches[text] = found
            while len(self._searches) > MAX_SEARCHES:
                del self._searches[next(iter(self._searches))]
            return found

    @cached_property
    def decoder(self) -> "Decoder":
        """The run's own tokenizer; nothing is fetched, and no code of the run is executed."""
        return Decoder(self.run)


class Decoder:
    """From token ids to text, where the run's folder or this machine has its tokenizer."""

    def __init__(self, run: RecordedRun) -> None:
        self.problem = ""
        self._decode = None
        try:
            self._decode = load_tokenizer(_tokenizer_folder(run)).tokenizer.decode
        except (AgentFlyError, LookupError, TypeError, OSError) as error:
            self.problem = f"The tokenizer of the run can't be read: {error}"

    def texts(self, ids: Sequence[int]) -> list[str] | None:
        """Return the text of each token alone; None without a tokenizer."""
        decode = self._decode
        return None if decode is None else [decode([token]) for token in ids]


def _tokenizer_folder(run: RecordedRun) -> Path:
    """Return the folder with the tokenizer; a model is looked up here, never fetched."""
    if (saved := run.tokenizer_folder) is not None:
        return saved
    name = str(run.settings["model"]["name"])
    local = {model.name: model.folder for model in list_models()}.get(name)
    folder = local or Path(name).expanduser()
    if (folder / "tokenizer.json").is_file():
        return folder
    raise ConfigError(f"neither {run.path} nor this machine has the tokenizer of {name!r}")


class RunStore:
    """The runs in a folder, or the one run that the folder is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[str, OpenRun] = {}
        self._lock = threading.Lock()

    def paths(self) -> dict[str, Path]:
        """Return the folders of all runs by name."""
        if (self.folder / MARK).is_file():
            return {self.folder.resolve().name: self.folder}
        return {mark.parent.name: mark.parent for mark in sorted(self.folder.glob(f"*/{MARK}"))}

    def find(self, name: str) -> OpenRun:
        """Return a run by its name; RefusalError if there is none."""
        path = self.paths().get(name)
        if path is None:
            message = f"there is no run {name[:100]!r} in {self.folder}"
            raise RefusalError(HTTPStatus.NOT_FOUND, "NoRun", message)
        with self._lock:
            found = self._open.pop(name, None) or OpenRun(path)
            self._open[name] = found
            while len(self._open) > MAX_OPEN:
                self._open.pop(next(iter(self._open))).index.close()
            return found

    def close(self) -> None:
        """Close the files of all runs."""
        with self._lock:
            for opened in self._open.values():
                opened.index.close()
            self._open.clear()
