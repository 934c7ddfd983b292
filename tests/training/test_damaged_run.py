"""A run whose files were damaged resumes with a warning, or says which file it is and what to do.

It never goes back in silence, never fails by a foreign exception and never loses a trajectory.
"""

import hashlib
import json
import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.some_now import some_now
from tests.training.small_trainer import one_source, settings, train

from agentfly.config import RunSettings
from agentfly.errors import AgentFlyError
from agentfly.observe import RunProgress

DONE = 2
"""Steps that the run has taken before it is damaged."""

NEWEST = f"checkpoints/step_{DONE}"
OLDER = "checkpoints/step_1"
IN_A_CHECKPOINT = (
    "chat_template.jinja",
    "config.json",
    "finished.jsonl",
    "generation_config.json",
    "learner.pt",
    "manifest.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "trainer.pt",
)
READ_BY_A_RESUME = ("run.json", "config.toml", "ledger.jsonl", "metrics.jsonl")
NOT_READ_BY_A_RESUME = (
    "environments.json",
    "events.jsonl",
    "lock",
    "log.txt",
    "trajectories/advantages_1.jsonl.gz",
    "trajectories/advantages_2.jsonl.gz",
    "trajectories/eval_0.jsonl.gz",
    "trajectories/eval_1.jsonl.gz",
    "trajectories/eval_2.jsonl.gz",
    "trajectories/step_1.jsonl.gz",
    "trajectories/step_2.jsonl.gz",
)
FILES = (
    *READ_BY_A_RESUME,
    *NOT_READ_BY_A_RESUME,
    *(f"{folder}/{name}" for folder in (OLDER, NEWEST) for name in IN_A_CHECKPOINT),
)


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    return train(one_source(), chosen=settings(folder, checkpoint={"every": 1})).folder


def test_every_file_of_a_run_is_looked_at_here(finished_run: Path) -> None:
    found = {path.relative_to(finished_run).as_posix() for path in _files(finished_run)}
    assert found == set(FILES)


# --- ways to damage a file ------------------------------------------------------------------------


def flip(path: Path) -> None:
    """Flip one bit somewhere."""
    data = bytearray(path.read_bytes())
    if data:
        place = random.Random(path.name).randrange(len(data))
        data[place] ^= 1
    path.write_bytes(data or b"\1")


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lose(path: Path) -> None:
    path.unlink()


def overwrite(path: Path) -> None:
    path.write_bytes(bytes(range(256)) + b"\n" + b"\xff" * 64 + b"\n")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def wrong_types(path: Path) -> None:
    """Put a list wherever a JSON object has a value, line by line where it is a file of lines."""
    text = path.read_text()
    lines = [text] if path.suffix == ".json" else text.splitlines()
    changed = [json.dumps({key: [value] for key, value in json.loads(x).items()}) for x in lines]
    path.write_text("".join(f"{line}\n" for line in changed))


DAMAGES: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (flip, cut, empty, lose, overwrite, replace_by_folder, wrong_types)
}


def _is_possible(file: str, damage: str) -> bool:
    name = Path(file).name
    if damage == "wrong_types":
        return name.endswith((".json", ".jsonl")) and not name.startswith("finished")
    return not (name == "finished.jsonl" and damage in ("cut", "empty"))  # it is empty as it is


ALL = [(file, damage) for file in FILES for damage in DAMAGES if _is_possible(file, damage)]
COMMON = [
    (file, damage)
    for file, damage in ALL
    if file in READ_BY_A_RESUME
    or (file == f"{NEWEST}/manifest.json" and damage != "empty")
    or (file in (f"{NEWEST}/trainer.pt", f"{NEWEST}/learner.pt") and damage in ("flip", "lose"))
    or (file in ("events.jsonl", "lock", "log.txt") and damage == "replace_by_folder")
]


# --- what must hold -------------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "damage"), some_now(COMMON, every=2))
def test_damage_is_reported_or_recovered_from(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, damage: str
) -> None:
    _check(finished_run, tmp_path, caplog, file, damage)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "damage"), [case for case in ALL if case not in COMMON])
def test_any_damage_to_any_file_is_reported_or_recovered_from(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, damage: str
) -> None:
    _check(finished_run, tmp_path, caplog, file, damage)


def _check(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str, damage: str
) -> None:
    folder = _copied(finished_run, tmp_path)
    _detach(folder / file)
    DAMAGES[damage](folder / file)
    before = _trajectories(folder)
    outcome = resume(folder, caplog)
    assert before <= _trajectories(folder), "trajectories were lost"
    if outcome.error is not None:
        assert Path(file).name in outcome.error or str(Path(file).parent) in outcome.error
        assert WAY_OUT.search(outcome.error), outcome.error
    elif (file, damage) == ("config.toml", "flip"):
        assert outcome.step == DONE, "a comment that is other changes nothing"
    elif file in READ_BY_A_RESUME or file.startswith(NEWEST):
        assert any(Path(file).name in text for text in outcome.warnings), outcome.warnings
    if outcome.went_back:
        assert any("step 1" in text or "step_1" in text for text in outcome.warnings)


def test_a_manifest_of_another_step_takes_no_step_back_in_silence(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = _copied(finished_run, tmp_path)
    manifest = folder / NEWEST / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"step": 2', '"step": 0'))
    before = _trajectories(folder)
    result = train(one_source(), chosen=longer(folder), resume=True)
    assert result.steps == DONE + 1
    assert before <= _trajectories(folder)
    assert {path.name for path in (folder / "undone" / "1").iterdir()} == {
        "advantages_2.jsonl.gz",
        "step_2.jsonl.gz",
        "eval_2.jsonl.gz",
    }
    assert "step_2 is ignored: its manifest.json is not what was written" in caplog.text
    assert "goes back to step 1, although a checkpoint of step 2 was saved" in caplog.text
    assert [record.step for record in result.metrics if "reward/mean" in record.metrics] == [
        1,
        2,
        3,
    ]


def test_a_run_without_its_checkpoints_is_not_begun_again(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = _copied(finished_run, tmp_path)
    shutil.rmtree(folder / "checkpoints")
    outcome = resume(folder, caplog)
    assert outcome.error is not None
    assert "a checkpoint of step 2 was saved, and there is none" in outcome.error
    assert _trajectories(folder) == _trajectories(finished_run)


def test_a_run_of_an_earlier_version_goes_on(
    finished_run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Before there were checksums, and before the ledger told of checkpoints."""
    folder = _copied(finished_run, tmp_path)
    for path in (folder / "ledger.jsonl", folder / "metrics.jsonl"):
        lines = [line for line in path.read_text().splitlines() if '"do":"save"' not in line]
        text = "".join(re.sub(r',"crc":"\w+"', "", line) + "\n" for line in lines)
        path.write_text(text.replace('"v":2', '"v":1'))
    for path in folder.glob("checkpoints/*/manifest.json"):
        manifest = json.loads(path.read_text())
        del manifest["sha256"]
        path.write_text(json.dumps({**manifest, "v": 1}))
    assert resume(folder, caplog) == Outcome(error=None, step=DONE, warnings=[])


WAY_OUT = re.compile(r"[Rr]estore|[Dd]elete|[Cc]orrect|[Ss]tart|[Rr]emove|[Rr]ead it with")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of resuming a run."""

    error: str | None
    """Of our own kind; any other is raised."""
    step: int | None
    """The step that it goes on from; None where it was refused."""
    warnings: list[str]

    @property
    def went_back(self) -> bool:
        return self.step is not None and self.step < DONE


class Opened(Exception):  # noqa: N818 - it is none
    """Ends a run when all of its parts are open and restored, before it samples."""


class StopsWhenOpened(RunProgress):
    """Tells where a run goes on, and ends it."""

    def start(self, total_steps: int, done: int = 0) -> None:
        del total_steps
        raise Opened(done)


def resume(folder: Path, caplog: pytest.LogCaptureFixture) -> Outcome:
    error, step, logged_before = None, None, len(caplog.records)
    try:
        train(one_source(), chosen=longer(folder), resume=True, progress=StopsWhenOpened())
    except Opened as opened:
        step = opened.args[0]
    except AgentFlyError as caught:
        error = str(caught)
    new = caplog.records[logged_before:]
    warnings = [record.getMessage() for record in new if record.levelno >= logging.WARNING]
    return Outcome(error=error, step=step, warnings=warnings)


def longer(folder: Path) -> RunSettings:
    return settings(
        folder.parent,
        train={"steps": DONE + 1, "lr": 1e-3},
        eval={"every": 0, "at_start": False, "at_end": False, "num_chains": 2},
        checkpoint={"every": 1},
    )


def _copied(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to / run.name, copy_function=_copy))


def _copy(source: str, target: str) -> None:
    """Copy a file; a large one, which nobody appends to, as a second name of the same file."""
    if source.endswith((".safetensors", ".pt", "tokenizer.json")):
        os.link(source, target)
    else:
        shutil.copyfile(source, target)


def _detach(path: Path) -> None:
    """Make a file one of its own, if it is another's second name."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)


def _trajectories(folder: Path) -> set[str]:
    """Hash every file of chains, wherever it is by now."""
    files = (path for path in _files(folder) if re.match(r"(step|eval)_\d+\.jsonl", path.name))
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
