"""A run's folder, read only: of a run that is finished, killed, or still at work.

Everything that looks at runs afterwards (report, `agentfly show`, lists of runs) reads them here.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from agentfly.errors import ConfigError
from agentfly.observe.run_folder import MARK
from agentfly.observe.trackers.metrics_file import MetricsRecord, read_metrics
from agentfly.observe.trajectory_file import read_trajectories
from agentfly.runtime.names import suggestion
from agentfly.types import Trajectory

RUNS = Path("runs")
"""The folder in which runs are looked up by their names alone."""
_CHAINS_FILE = re.compile(r"(step|eval)_(\d+)\.jsonl(\.gz)?")


def find_run(run: str | Path) -> "RecordedRun":
    """Return a run by its folder, or by its name in the folder `runs`."""
    for folder in (Path(run), RUNS / run):
        if (folder / MARK).is_file():
            return RecordedRun(folder)
    names = sorted(mark.parent.name for mark in RUNS.glob(f"*/{MARK}"))
    known = suggestion(str(run), names) if names else "There are none in the folder `runs`."
    raise ConfigError(f"there is no run {str(run)!r}: expected the folder of one. {known}")


def find_chains(run: str | Path) -> "RecordedRun":
    """Return a run as `find_run` does, or the one file that `save_to=` or `save` wrote."""
    return SavedChains(Path(run)) if Path(run).is_file() else find_run(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainFile:
    """The chains of one step, or of the evaluation after it."""

    path: Path
    step: int
    held_out: bool
    name: str = ""
    """Name for people, for a file that belongs to no step."""

    @property
    def finished(self) -> bool:
        """Whether all of its chains are there: only then is it compacted."""
        return self.path.suffix == ".gz"

    @property
    def size(self) -> int:
        """Size in bytes; 0 where the file is gone."""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    @property
    def title(self) -> str:
        """The name for people: `step 3`, `evaluation after step 3`."""
        if self.name:
            return self.name
        return f"evaluation after step {self.step}" if self.held_out else f"step {self.step}"

    def read(self) -> Iterator[Trajectory]:
        """Yield the chains, one at a time."""
        return read_trajectories(self.path)

    def find(self, chain_id: str) -> Trajectory | None:
        """Return the chain of an id; None if it is not here."""
        return next(read_trajectories(self.path, chain_id=chain_id), None)


@dataclass(frozen=True)
class RecordedRun:
    """The files of one run."""

    path: Path

    @property
    def name(self) -> str:
        """Name of the run, which is its folder's."""
        return self.path.resolve().name

    @cached_property
    def kind(self) -> str:
        """`run`, or `evaluation` for a folder of `agentfly eval`."""
        mark = self.json_file(MARK)
        return str(mark.get("kind", "run")) if isinstance(mark, dict) else "run"

    @cached_property
    def has_mark(self) -> bool:
        """Whether its run.json is of a kind that AgentFly writes."""
        mark = self.json_file(MARK)
        return isinstance(mark, dict) and mark.get("kind") in ("run", "evaluation")

    @cached_property
    def base(self) -> Path | None:
        """Folder in which the run searched for modules and files; None if it is not recorded."""
        mark = self.json_file(MARK)
        base = mark.get("base") if isinstance(mark, dict) else None
        return Path(base) if isinstance(base, str) else None

    @cached_property
    def config(self) -> str:
        """Settings of the run as TOML; empty if they are lost."""
        try:
            return (self.path / "config.toml").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """Settings as tables; empty if they can't be read."""
        try:
            return tomllib.loads(self.config)
        except tomllib.TOMLDecodeError:
            return {}

    @cached_property
    def records(self) -> list[MetricsRecord]:
        """Metrics of all steps and evaluations; FormatError if the file is damaged."""
        file = self.path / "metrics.jsonl"
        return read_metrics(file) if file.exists() else []

    @property
    def step(self) -> int:
        """The last step that was trained and logged."""
        return max((record.step for record in self.records), default=0)

    @property
    def planned_steps(self) -> int | None:
        """Number of steps that the settings ask for."""
        steps = self.settings.get("train", {}).get("steps")
        return steps if isinstance(steps, int) else None

    @cached_property
    def steps(self) -> list[int]:
        """Steps whose chains are in the folder, one that was not finished included."""
        return [file.step for file in self.chain_files if not file.held_out]

    @cached_property
    def evaluations(self) -> list[int]:
        """Steps after which an evaluation was finished."""
        return [file.step for file in self.chain_files if file.held_out and file.finished]

    @cached_property
    def chain_files(self) -> list["ChainFile"]:
        """All files of chains, in the order of the run."""
        files: dict[tuple[int, bool], ChainFile] = {}
        for path in sorted((self.path / "trajectories").glob("*")):
            if found := _CHAINS_FILE.fullmatch(path.name):
                file = ChainFile(path=path, step=int(found[2]), held_out=found[1] == "eval")
                files[file.step, file.held_out] = file
        return [files[key] for key in sorted(files)]

    def chain_file(self, step: int | None, *, held_out: bool = False) -> "ChainFile":
        """Return the chains of a step, by default the last that has a finished one.

        All chains of an evaluation's folder are held out. Raises ConfigError if there are none.
        """
        held_out = held_out or self.kind == "evaluation"
        files = [file for file in self.chain_files if file.held_out == held_out]
        chosen = [file for file in files if step in (None, file.step)]
        if not chosen:
            what = "held-out chains" if held_out else "chains"
            known = ", ".join(str(file.step) for file in files) or "none"
            where = "" if step is None else f" of step {step}"
            raise ConfigError(f"{self.path} has no {what}{where}. Steps that have some: {known}")
        begun = (file for file in reversed(chosen) if next(file.read(), None) is not None)
        return next(begun, chosen[-1])

    def chain_files_between(
        self, first: int | None, last: int | None, *, held_out: bool = False
    ) -> list["ChainFile"]:
        """Return the chains of all steps within two, both included.

        Raises ConfigError if there are none.
        """
        held_out = held_out or self.kind == "evaluation"
        files = [file for file in self.chain_files if file.held_out == held_out]
        chosen = [
            file
            for file in files
            if (first is None or file.step >= first) and (last is None or file.step <= last)
        ]
        if not chosen:
            known = ", ".join(str(file.step) for file in files) or "none"
            raise ConfigError(f"{self.path} has no such chains. Steps that have some: {known}")
        return chosen

    @property
    def trial_file(self) -> "ChainFile":
        """Chains that were tried before the first step; ConfigError if there are none."""
        path = self.path / "trajectories" / "trial.jsonl"
        if not path.exists():
            raise ConfigError(
                f"{self.path} has no trial: a run tries its model only if it has tools of the kind "
                "'tools', no environment, tasks without a worked example, and example = \"auto\". "
                "Leave --trial out"
            )
        return ChainFile(path=path, step=0, held_out=False, name="trial before step 1")

    @property
    def checkpoint_steps(self) -> list[int]:
        """Steps that have a checkpoint, in order; nothing is verified."""
        names = (re.fullmatch(r"step_(\d+)", path.name) for path in self.path.glob("checkpoints/*"))
        return sorted(int(name[1]) for name in names if name)

    @property
    def tokenizer_folder(self) -> Path | None:
        """Folder with the tokenizer of the run's model; None if it saved none."""
        folders = [self.path / "model", *self.path.glob("checkpoints/step_*")]
        found = [folder for folder in folders if (folder / "tokenizer.json").is_file()]
        return max(found, key=lambda folder: folder.stat().st_mtime, default=None)

    def chains(self, step: int) -> Iterator[Trajectory]:
        """Yield the chains of a training step, one at a time."""
        return self.chain_file(step).read()

    def evaluation(self, step: int) -> Iterator[Trajectory]:
        """Yield the held-out chains of the weights after a step, one at a time."""
        return self.chain_file(step, held_out=True).read()

    def json_file(self, name: str) -> Any:
        """Return the content of one of the run's JSON files; None if there is none to be read."""
        try:
            return json.loads((self.path / name).read_bytes())
        except (OSError, ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class SavedChains(RecordedRun):
    """One file of chains, outside of any run's folder: `Agent.run(save_to=...)` writes it."""

    @property
    def config(self) -> str:
        """Nothing: the file does not say by which settings its chains were made."""
        return ""

    @property
    def chain_files(self) -> list[ChainFile]:
        """The file alone."""
        return [ChainFile(path=self.path, step=0, held_out=False, name="saved chains")]

    def chain_file(self, step: int | None, *, held_out: bool = False) -> ChainFile:
        """Return the file; ConfigError if a step or an evaluation is asked for."""
        if step is not None or held_out:
            raise ConfigError(
                f"{self.path} is one file of chains, without steps: leave --step and --held-out out"
            )
        return self.chain_files[0]
