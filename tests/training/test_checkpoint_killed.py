"""`kill -9` at any moment of a save leaves a checkpoint to resume from."""

import inspect
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from agentfly.training.checkpoint import Checkpoints

FOLDER = str(Path(inspect.getfile(Checkpoints)).parent)
SAVER = f"""
    import os, signal, sys, types
    from pathlib import Path

    # Without the package's own imports: torch takes longer to import than all that is tested here.
    package = sys.modules["agentfly.training"] = types.ModuleType("agentfly.training")
    package.__path__ = [{FOLDER!r}]
    from agentfly.training import checkpoint
    assert "torch" not in sys.modules

    def write(step):
        def fill(folder):
            (folder / "model").mkdir()
            for part in range(4):
                (folder / "model" / f"{{part}}.bin").write_bytes(bytes([step % 256]) * 50_000)
        return fill

    folder = Path(sys.argv[1])
"""


def run(code: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    program = textwrap.dedent(SAVER) + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", program, str(folder), *arguments], stdout=subprocess.PIPE, text=True
    )


LIVES = 4
"""Processes that are killed at a random moment; the other tests take every moment in turn."""


def assert_loadable(folder: Path, *, at_least: int) -> None:
    latest = Checkpoints(folder).latest()
    assert latest is not None
    assert latest.step >= at_least
    for home in folder.iterdir():
        if not home.suffix:
            step = int(home.name.removeprefix("step_"))
            files = sorted((home / "model").iterdir())
            assert [file.read_bytes() for file in files] == [bytes([step % 256]) * 50_000] * 4


def test_killed_at_random_moments_it_always_resumes(tmp_path: Path) -> None:
    """One folder, killed again and again: each life also mends what the last one left."""
    code = """
        checkpoints = checkpoint.Checkpoints(folder, keep=2)
        latest = checkpoints.latest()
        step = latest.step if latest else 0
        while True:
            step += 1
            checkpoints.save(step, write(step), score=-step)
            print(step, flush=True)
    """
    moments = random.Random(0)
    saved = 0
    for _ in range(LIVES):
        with run(code, tmp_path) as process:
            assert process.stdout is not None
            first = process.stdout.readline()
            time.sleep(moments.uniform(0, 0.08))
            process.kill()
            saved = max(map(int, [first, *process.stdout.read().split("\n")[:-1]]))
        assert_loadable(tmp_path, at_least=saved)
    assert saved >= LIVES  # each life got at least one step further


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_every_rename_sync_and_removal(tmp_path: Path, moment: str) -> None:
    """For n = 1, 2, …, a child dies at its n-th such call; its second save is a replacement."""
    code = """
        def dying(real, at):
            def call(*arguments, **named):
                calls.append(real)
                dies = len(calls) == at
                if dies and moment == "before":
                    os.kill(os.getpid(), signal.SIGKILL)
                result = real(*arguments, **named)
                if dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                return result
            return call

        def live(checkpoints, at, said):
            checkpoint.Path.rename = dying(checkpoint.Path.rename, at)
            checkpoint.sync_folder = dying(checkpoint.sync_folder, at)
            checkpoint.shutil.rmtree = dying(checkpoint.shutil.rmtree, at)
            os.unlink = dying(os.unlink, at)
            for step in (2, 2, 3):
                checkpoints.save(step, write(step))
                said.write_text(str(step))

        moment, at, status, calls = sys.argv[2], 0, 9, []
        while status:
            at += 1
            home = folder / str(at)
            home.mkdir(parents=True)
            checkpoints = checkpoint.Checkpoints(home / "checkpoints", keep=1)
            checkpoints.save(1, write(1))
            if not (child := os.fork()):
                live(checkpoints, at, home / "said")
                os._exit(0)
            status = os.waitpid(child, 0)[1]
            assert status in (0, signal.SIGKILL), status
    """
    with run(code, tmp_path, moment) as process:
        pass
    assert process.returncode == 0
    homes = list(tmp_path.iterdir())
    assert len(homes) > 25
    for home in homes:
        said = home / "said"
        step = int(said.read_text()) if said.exists() else 1
        assert_loadable(home / "checkpoints", at_least=step)


def test_a_file_that_can_grow_no_more_is_reported_and_leaves_the_last_good_one(
    tmp_path: Path,
) -> None:
    code = """
        import resource
        checkpoints = checkpoint.Checkpoints(folder)
        checkpoints.save(1, lambda folder: (folder / "small.bin").write_bytes(b"x" * 1000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            checkpoints.save(2, write(2))
        except checkpoint.RunError as error:
            print(error)
    """
    with run(code, tmp_path) as process:
        said, _ = process.communicate()
    assert "the checkpoint of step 2 could not be written" in said
    assert "File too large" in said
    assert "the last good one is" in said
    assert [path.name for path in tmp_path.iterdir()] == ["step_1"]
