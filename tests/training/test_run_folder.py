"""A run's folder: made once, taken up again, never by two at a time."""

import inspect
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentfly.errors import ConfigError, FormatError
from agentfly.observe.run_folder import RunFolder
from agentfly.training.run_files import describe_resume


def test_where_everything_is(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "runs" / "demo", config='name = "démo"\n') as run:
        home = tmp_path / "runs" / "demo"
        assert run.path == home
        assert run.config_file.read_text(encoding="utf-8") == 'name = "démo"\n'
        assert run.config_file == home / "config.toml"
        assert run.metrics_file == home / "metrics.jsonl"
        assert run.events_file == home / "events.jsonl"
        assert run.ledger_file == home / "ledger.jsonl"
        assert run.log_file == home / "log.txt"
        assert run.checkpoints_folder == home / "checkpoints"
        assert run.trajectories_file(3) == home / "trajectories" / "step_3.jsonl"
        assert run.evaluation_file(3) == home / "trajectories" / "eval_3.jsonl"
    with RunFolder.open(home) as run:
        assert run.config_file.read_text(encoding="utf-8") == 'name = "démo"\n'


def test_a_run_is_not_written_over(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, config="first").close()
    with pytest.raises(ConfigError, match=r"holds a run already.*--resume.*another name"):
        RunFolder.create(tmp_path, config="second")
    with RunFolder.open(tmp_path) as run:
        assert run.config_file.read_text(encoding="utf-8") == "first"


def test_the_command_that_removes_a_run_can_be_copied(tmp_path: Path) -> None:
    path = tmp_path / "my run"
    RunFolder.create(path, config="first").close()
    with pytest.raises(ConfigError, match=f"agentfly runs rm '{path}'"):
        RunFolder.create(path, config="second")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"is no run: it holds thesis\.tex"):
        RunFolder.create(tmp_path, config="")


def test_what_a_killed_create_left_is_no_run(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, config="").close()
    (tmp_path / "run.json").rename(tmp_path / "run.json.part")
    with pytest.raises(ConfigError, match="no run to resume"):
        RunFolder.open(tmp_path)
    RunFolder.create(tmp_path, config="again").close()
    with RunFolder.open(tmp_path) as run:
        assert run.config_file.read_text(encoding="utf-8") == "again"


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without --resume"):
        RunFolder.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        ('{"v": 2, "kind": "run"}', "format 2"),
        ("{", "damaged"),
        ("[]", "damaged"),
        ('{"v": "1", "kind": "run"}', "damaged"),
        ('{"v": 1}', "damaged"),
    ],
)
def test_another_layout_is_refused(tmp_path: Path, mark: str, problem: str) -> None:
    RunFolder.create(tmp_path, config="").close()
    (tmp_path / "run.json").write_text(mark)
    with pytest.raises(FormatError, match=problem):
        RunFolder.open(tmp_path)


def test_two_processes_never_train_in_one_folder(tmp_path: Path) -> None:
    # This one module: the whole room takes long to import.
    code = f"""
import runpy
RunFolder = runpy.run_path({inspect.getfile(RunFolder)!r})["RunFolder"]
run = RunFolder.create({str(tmp_path)!r}, config="")
print("mine", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(ConfigError, match=rf"\(pid {other.pid}\) is training"):
            RunFolder.open(tmp_path)
        other.send_signal(signal.SIGKILL)
    RunFolder.open(tmp_path).close()


def test_the_lock_goes_with_the_run(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, config="")
    with pytest.raises(ConfigError, match="is training"):
        RunFolder.open(tmp_path)
    run.close()
    run.close()
    RunFolder.open(tmp_path).close()


def test_chains_of_later_steps_are_set_aside(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, config="") as run:
        assert run.set_aside_trajectories_after(0) is None
        run.trajectories_folder.mkdir()
        chains = ["eval_10.jsonl.gz", "step_10.jsonl.gz", "step_9.jsonl.gz"]
        kept = ["advantages_10.jsonl.gz", *chains]
        later = [
            "advantages_11.jsonl.gz",
            "eval_10.jsonl",
            "eval_20.jsonl.gz",
            "step_11.jsonl",
            "step_12.jsonl.gz.part",
        ]
        for name in (*kept, *later):
            (run.trajectories_folder / name).write_text(name)
        first = run.set_aside_trajectories_after(10)
        assert first == tmp_path / "undone" / "1"
        assert sorted(path.name for path in run.trajectories_folder.iterdir()) == kept
        assert {path.name: path.read_text() for path in first.iterdir()} == {n: n for n in later}
        (run.trajectories_folder / "step_11.jsonl").write_text("again")
        assert run.set_aside_trajectories_after(10) == tmp_path / "undone" / "2"
    assert (first / "step_11.jsonl").read_text() == "step_11.jsonl"


def test_a_resumed_run_says_which_chains_are_sampled_again(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path, config="") as run:
        assert describe_resume(run, 1).endswith("nothing was lost after its checkpoint of step 1")
        run.trajectories_folder.mkdir(exist_ok=True)
        run.trajectories_file(1).touch()
        assert "nothing was lost" in describe_resume(run, 1)
        run.trajectories_file(2).touch()
        assert describe_resume(run, 1) == (
            f"resuming {tmp_path} at step 2, after its checkpoint of step 1: the chains of step 2 "
            "that were begun and are not in it are sampled again"
        )
        assert run.set_aside_trajectories_after(1) == tmp_path / "undone" / "1"
