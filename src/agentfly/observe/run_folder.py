"""A run is a folder of plain files.

runs/demo/
    run.json                 the version of this layout, and the folder of its modules and files;
                             written last, so that a run has it
    config.toml              the settings, complete
    metrics.jsonl            one line per step
    evaluation.json          all numbers of an evaluation, which has no other files of its own
    example.json             the worked example that the model is shown, if it needs one
    findings.json            what keeps it from learning, if anything does
    events.jsonl             what happened in the chains, as it happened
    ledger.jsonl             which tasks were issued, finished, trained on
    trajectories/step_3.jsonl.gz     and trial.jsonl, the chains that were tried before step 1
    trajectories/advantages_3.jsonl.gz   what the tokens of these chains were trained with
    undone/1/step_4.jsonl.gz     chains of steps that the first resumed run took again
    checkpoints/step_10/
    published/version_10/    weights on their way to an engine elsewhere
    tensorboard/
    log.txt                  messages of AgentFly and other libraries
    stalls/1.txt             what stood still, with all stacks
    lock                     held by the process that trains
"""

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from filelock import lock_descriptor

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.whole_file import PART, whole_file

FORMAT_VERSION = 1
"""Raised whenever a file moves or changes its meaning."""
MARK = "run.json"
"""The file that every run has."""
CONFIG = "config.toml"
LOCK = "lock"
FINDINGS = "findings.json"
METRICS = "metrics.jsonl"
RESULT = "evaluation.json"
_ARTICLE = {"run": "a run", "evaluation": "an evaluation"}


class RunFolder:
    """The folder of a run, and the lock that keeps a second process out.

        with RunFolder.create("runs/demo", config=toml) as run:
            run.metrics_file            # runs/demo/metrics.jsonl
            run.trajectories_file(3)    # runs/demo/trajectories/step_3.jsonl

    The lock belongs to the process: the operating system takes it back however the process ends.
    """

    KIND = "run"
    """Kind of folder, in its run.json."""

    def __init__(self, path: Path, lock: IO[str]) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, path: str | Path, *, config: str, base: Path | None = None) -> Self:
        """Start a new run.

        Args:
            path: Folder of the run.
            config: Its complete settings, as TOML.
            base: Folder in which the modules and files that the settings name are.
        """
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        run = cls(path, _locked(path))
        try:
            require_new(path)
            _write(path / CONFIG, config)
            mark = {"v": FORMAT_VERSION, "kind": cls.KIND}
            where = {"base": str(base.absolute())} if base else {}
            _write(path / MARK, json.dumps(mark | where) + "\n")
        except BaseException:
            run.close()
            raise
        return run

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a run that was started before, to continue it."""
        path = Path(path)
        require_run(path, cls.KIND)
        return cls(path, _locked(path))

    def replace_config(self, config: str) -> None:
        """Write the settings with which a resumed run continues."""
        _write(self.config_file, config)

    @property
    def config_file(self) -> Path:
        """The settings, complete."""
        return self.path / CONFIG

    @property
    def metrics_file(self) -> Path:
        """One line of metrics per step."""
        return self.path / METRICS

    @property
    def example_file(self) -> Path:
        """Worked examples of the run's sources, and why they have them."""
        return self.path / "example.json"

    @property
    def trial_file(self) -> Path:
        """Chains of the trial before the first step."""
        return self.trajectories_folder / "trial.jsonl"

    @property
    def findings_file(self) -> Path:
        """Findings of the run; absent while there are none."""
        return self.path / FINDINGS

    @property
    def events_file(self) -> Path:
        """Events of the chains, in order of time."""
        return self.path / "events.jsonl"

    @property
    def ledger_file(self) -> Path:
        """Journal of the tasks that were issued, finished and trained on."""
        return self.path / "ledger.jsonl"

    @property
    def log_file(self) -> Path:
        """Log messages of this and other libraries."""
        return self.path / "log.txt"

    @property
    def checkpoints_folder(self) -> Path:
        """Checkpoints that the run can be resumed from."""
        return self.path / "checkpoints"

    @property
    def trajectories_folder(self) -> Path:
        """The chains of every step."""
        return self.path / "trajectories"

    def trajectories_file(self, step: int) -> Path:
        """Return where the chains of a step are written; later a gzip file replaces it."""
        return self.trajectories_folder / f"step_{step}.jsonl"

    def credit_file(self, step: int) -> Path:
        """Return where the advantages of a step's tokens are written."""
        return self.trajectories_folder / f"advantages_{step}.jsonl.gz"

    def evaluation_file(self, step: int) -> Path:
        """Return where the held-out chains of the weights of a step go."""
        return self.trajectories_folder / f"eval_{step}.jsonl"

    def is_evaluated(self, step: int) -> bool:
        """Return whether all held-out chains of a step are there: only then are they compacted."""
        file = self.evaluation_file(step)
        return file.with_name(f"{file.name}.gz").exists()

    @property
    def undone_folder(self) -> Path:
        """The chains of steps that were taken again, a folder for each time."""
        return self.path / "undone"

    @property
    def stalls_folder(self) -> Path:
        """Reports of the watchdog."""
        return self.path / "stalls"

    @property
    def model_folder(self) -> Path:
        """Folder of the merged model of a run with adapters."""
        return self.path / "model"

    @property
    def published_folder(self) -> Path:
        """Weights on their way to an engine elsewhere; gone when the run is over."""
        return self.path / "published"

    @property
    def workers_folder(self) -> Path:
        """Lines that the workers of a cluster printed and logged, a file for each."""
        return self.path / "workers"

    def has_trajectories_of(self, step: int) -> bool:
        """Return whether any chains of a step were sampled, also if it was not finished."""
        return any(self.trajectories_folder.glob(f"step_{step}.jsonl*"))

    def set_aside_trajectories_after(self, step: int) -> Path | None:
        """Move the chains of later steps, which a resumed run samples again, out of the way.

        An evaluation that was not finished is moved too. Returns the folder that they are in now;
        None where there were none.
        """
        undone = [path for path in self.trajectories_folder.glob("*") if _is_after(path, step)]
        if not undone:
            return None
        earlier = [int(path.name) for path in self.undone_folder.glob("*") if path.name.isdigit()]
        folder = self.undone_folder / str(max(earlier, default=0) + 1)
        folder.mkdir(parents=True)
        for path in undone:
            path.rename(folder / path.name)
        return folder

    def abandon(self) -> None:
        """Remove all that there is of a run, but the lock."""
        for path in self.path.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()

    def close(self) -> None:
        """Release the lock. Closing twice does nothing."""
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


def require_new(path: Path) -> None:
    """Refuse a run, and a folder of something else; what a killed `create` left is neither."""
    if not path.exists():
        return
    if not path.is_dir():
        raise ConfigError(f"{path} is a file. Give this run another name (name=…), or move it away")
    if (path / MARK).exists():
        raise ConfigError(
            f"{path} holds a run already. Continue it with --resume, give this one another name "
            f"(name=…), or remove the old one: agentfly runs rm {shlex.quote(str(path))}"
        )
    others = sorted({found.name for found in path.iterdir()} - _LEFT_BY_A_KILLED_CREATE)
    if others:
        raise ConfigError(
            f"{path} exists and is no run: it holds {', '.join(others[:3])}. "
            "Give this run another name, or empty the folder"
        )


_LEFT_BY_A_KILLED_CREATE = {LOCK, CONFIG, CONFIG + PART, MARK + PART}


class EvaluationFolder(RunFolder):
    """The folder of an evaluation: a run without steps, whose chains are all held out."""

    KIND = "evaluation"

    @property
    def result_file(self) -> Path:
        """All numbers of the finished evaluation."""
        return self.path / RESULT


def require_run(path: Path, kind: str = RunFolder.KIND) -> None:
    """Refuse to resume what is no run of a kind, and one whose layout is not known."""
    mark = path / MARK
    content = json.dumps({"v": FORMAT_VERSION, "kind": kind})
    restore = f"Restore it, with the content {content} if this version of AgentFly started the run"
    if not mark.exists():
        if any((path / name).exists() for name in _SIGNS_OF_A_RUN):
            raise FormatError(f"{mark} is lost, although {path} holds a run. {restore}")
        raise ConfigError(
            f"there is no run to resume in {path}: it has no {MARK}. "
            "Start it without --resume, or give the name of one that was started"
        )
    try:
        found = json.loads(mark.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{mark} is damaged: {error}. {restore}") from error
    match found:
        case {"v": int(version), "kind": str()} if version > FORMAT_VERSION:
            raise FormatError(
                f"{mark}: the run is laid out in format {version}; this AgentFly knows "
                f"{FORMAT_VERSION}. Restore the version of AgentFly that started it"
            )
        case {"v": 1, "kind": str(found_kind)} if found_kind == kind:
            return
        case {"v": 1, "kind": "run" | "evaluation" as other}:
            raise ConfigError(
                f"{path} holds {_ARTICLE[other]}, and {_ARTICLE[kind]} was to be resumed: give "
                "this one another name"
            )
    raise FormatError(f"{mark} is damaged: got {found!r}. {restore}")


_SIGNS_OF_A_RUN = ("ledger.jsonl", "metrics.jsonl", "checkpoints")


def _is_after(path: Path, step: int) -> bool:
    found = re.fullmatch(r"(step|eval|advantages)_(\d+)\.jsonl(.*)", path.name)
    if not found or not path.is_file():
        return False
    unfinished = found[1] == "eval" and found[3] != ".gz"
    return int(found[2]) > step or (int(found[2]) == step and unfinished)


def _locked(path: Path) -> IO[str]:
    lock = (path / LOCK).open("a+")
    try:
        _take(lock, path)
    except BaseException:
        lock.close()
        raise
    return lock


def _take(lock: IO[str], path: Path) -> None:
    if not lock_descriptor(lock.fileno(), blocking=False):
        lock.seek(0)
        raise ConfigError(
            f"another process (pid {lock.read().strip() or 'unknown'}) is training in {path}. "
            "Wait until it ends, or give this run another name"
        )
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())
