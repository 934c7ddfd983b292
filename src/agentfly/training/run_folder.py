"""A run is a folder of plain files.

runs/demo/
    run.json                 the version of this layout; written last, so that a run has it
    config.toml              the settings, complete
    metrics.jsonl            one line per step
    events.jsonl             what happened in the chains, as it happened
    ledger.jsonl             which tasks were issued, finished, trained on
    trajectories/step_3.jsonl.gz
    checkpoints/step_10/
    tensorboard/
    log.txt                  what libraries had to say
    lock                     held by the process that trains
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.whole_file import PART, whole_file

if sys.platform != "win32":
    import fcntl

FORMAT_VERSION = 1
"""Raised whenever a file moves or changes its meaning."""
MARK = "run.json"
CONFIG = "config.toml"
LOCK = "lock"


class RunFolder:
    """Where a run keeps everything, and the lock that keeps a second process out.

        with RunFolder.create("runs/demo", config=toml) as run:
            run.metrics_file            # runs/demo/metrics.jsonl
            run.trajectories_file(3)    # runs/demo/trajectories/step_3.jsonl

    The lock belongs to the process: the operating system takes it back however the process ends.
    """

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: str | Path, *, config: str) -> Self:
        """Start a new run; `config` is its complete settings, as TOML."""
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, _locked(path))
        try:
            _require_new(path)
            _write(path / CONFIG, config)
            _write(path / MARK, json.dumps({"v": FORMAT_VERSION, "kind": "run"}) + "\n")
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Take up a run where it was left."""
        path = Path(path)
        if not (path / MARK).is_file():
            raise ConfigError(
                f"there is no run to resume in {path}: it has no {MARK}. "
                "Start it without --resume, or give the name of one that was started"
            )
        _require_known(path / MARK)
        return cls(path, _locked(path))

    @property
    def config(self) -> str:
        """The settings that the run was started with, as TOML."""
        return self.config_file.read_text(encoding="utf-8")

    def replace_config(self, config: str) -> None:
        """Write down the settings that a resumed run goes on with."""
        _write(self.config_file, config)

    @property
    def config_file(self) -> Path:
        """The settings, complete."""
        return self.path / CONFIG

    @property
    def metrics_file(self) -> Path:
        """One line of metrics per step."""
        return self.path / "metrics.jsonl"

    @property
    def events_file(self) -> Path:
        """What happened in the chains, as it happened."""
        return self.path / "events.jsonl"

    @property
    def ledger_file(self) -> Path:
        """Which tasks were issued, finished, trained on."""
        return self.path / "ledger.jsonl"

    @property
    def log_file(self) -> Path:
        """What libraries had to say."""
        return self.path / "log.txt"

    @property
    def checkpoints_folder(self) -> Path:
        """What the run can be resumed from."""
        return self.path / "checkpoints"

    @property
    def trajectories_folder(self) -> Path:
        """The chains of every step."""
        return self.path / "trajectories"

    def trajectories_file(self, step: int) -> Path:
        """Return where the chains of a step are written; later a gzip file stands beside it."""
        return self.trajectories_folder / f"step_{step}.jsonl"

    def evaluation_file(self, step: int) -> Path:
        """Return where the held-out chains of the weights of a step go."""
        return self.trajectories_folder / f"eval_{step}.jsonl"

    def is_evaluated(self, step: int) -> bool:
        """Tell whether all held-out chains of a step are there: only then are they compacted."""
        file = self.evaluation_file(step)
        return file.with_name(f"{file.name}.gz").exists()

    @property
    def model_folder(self) -> Path:
        """Where the model of a run with adapters goes, merged."""
        return self.path / "model"

    def drop_trajectories_after(self, step: int) -> None:
        """Remove the chains of later steps, which a resumed run samples again."""
        for path in self.trajectories_folder.glob("*_*.jsonl*"):
            number = re.match(r"(?:step|eval)_(\d+)\.jsonl", path.name)
            if number and int(number[1]) > step:
                path.unlink()

    def abandon(self) -> None:
        """Remove all that there is of a run, but the lock."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()

    def close(self) -> None:
        """Let another process train here. Closing twice does nothing."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _require_new(path: Path) -> None:
    """Refuse a run, and a folder of something else; what a killed `create` left is neither."""
    if (path / MARK).exists():
        raise ConfigError(
            f"{path} holds a run already. Continue it with --resume, or give this one another name"
        )
    strangers = sorted({found.name for found in path.iterdir()} - _LEFT_BY_A_KILLED_CREATE)
    if strangers:
        raise ConfigError(
            f"{path} exists and is no run: it holds {', '.join(strangers[:3])}. "
            "Give this run another name, or empty the folder"
        )


_LEFT_BY_A_KILLED_CREATE = {LOCK, CONFIG, CONFIG + PART, MARK + PART}


def _require_known(mark: Path) -> None:
    try:
        version = json.loads(mark.read_text())["v"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(f'{mark} is damaged: expected {{"v": {FORMAT_VERSION}}}') from error
    if version != FORMAT_VERSION:
        raise FormatError(
            f"{mark.parent} is laid out in format {version}; this AgentFly knows "
            f"{FORMAT_VERSION}. Resume it with the version that started it"
        )


def _locked(path: Path) -> IO[str]:
    lock = (path / LOCK).open("a+")
    try:
        _take(lock, path)
    except BaseException:
        lock.close()
        raise
    return lock


def _take(lock: IO[str], path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        raise ConfigError(
            f"another process (pid {lock.read().strip() or 'unknown'}) is training in {path}. "
            "Wait until it ends, or give this run another name"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())
