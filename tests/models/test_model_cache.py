"""The cache's promises, shown with builds of a few bytes."""

import logging
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.models import model_cache
from agentfly.models.model_cache import Progress, cache_folder, cached, make, quiet

pytest.importorskip("filelock")


def write_weights(folder: Path, progress: Progress) -> None:
    (folder / "weights").write_bytes(b"abc")
    progress("done", 1.0)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".lock"))


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AGENTFLY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "agentfly" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/home/me/.cache/agentfly/models")
    monkeypatch.setenv("AGENTFLY_CACHE", "~/mine")
    assert cache_folder() == Path("/home/me/mine/models")


def test_a_model_is_built_once(cache: Path) -> None:
    built: list[Path] = []

    def build(folder: Path, progress: Progress) -> None:
        built.append(folder)
        write_weights(folder, progress)

    assert cached("m") is None
    assert make("m", build, needs=0, progress=quiet) == cache / "m"
    assert make("m", build, needs=0, progress=quiet) == cached("m")
    assert len(built) == 1
    assert built[0] != cache / "m"
    assert names_in(cache) == ["m"]
    assert (cache / "m" / "weights").read_bytes() == b"abc"


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "no manifest", "empty manifest"])
def test_a_damaged_model_is_made_again(
    cache: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make("m", write_weights, needs=0, progress=quiet)
    match damage:
        case "changed":
            (folder / "weights").write_bytes(b"abd")
        case "cut":
            (folder / "weights").write_bytes(b"ab")
        case "gone":
            (folder / "weights").unlink()
        case "no manifest":
            (folder / "agentfly.json").unlink()
        case _:
            (folder / "agentfly.json").write_text('{"version": 1, "files": {}}')
    assert cached("m") is None
    with caplog.at_level(logging.WARNING):
        make("m", write_weights, needs=0, progress=quiet)
    assert "damaged" in caplog.text
    assert (folder / "weights").read_bytes() == b"abc"
    assert cached("m") == folder


def test_a_failed_build_leaves_nothing(cache: Path) -> None:
    def fail(folder: Path, progress: Progress) -> None:
        write_weights(folder, progress)
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        make("m", fail, needs=0, progress=quiet)
    assert names_in(cache) == []


_BUILD_AND_DIE = """
    import os, sys
    from agentfly.models.model_cache import make
    def build(folder, progress):
        (folder / "weights").write_bytes(b"ab")
        os.kill(os.getpid(), 9)
    make("m", build, needs=0, progress=print)
"""


def test_what_a_killed_process_left_is_cleaned_up(cache: Path) -> None:
    subprocess.run([sys.executable, "-c", textwrap.dedent(_BUILD_AND_DIE)], check=False)
    (left,) = names_in(cache)
    assert left.startswith(".m.half-")
    (cache / ".other.half-x").mkdir()  # being made by another process, for all we know
    make("m", write_weights, needs=0, progress=quiet)
    assert names_in(cache) == [".other.half-x", "m"]


_BUILD_SLOWLY = """
    import sys, time
    from pathlib import Path
    from agentfly.models.model_cache import make
    def build(folder, progress):
        with open(sys.argv[1], "a") as log:
            log.write("built\\n")
        (folder / "weights").write_bytes(b"abc")
        time.sleep(1)
    def told(stage, done):
        print(stage)
    print((make("m", build, needs=0, progress=told) / "weights").read_bytes())
"""


def test_of_two_processes_one_builds_and_the_other_waits(cache: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", textwrap.dedent(_BUILD_SLOWLY), str(log)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert all("b'abc'" in text for text in said)
    assert log.read_text() == "built\n"
    assert names_in(cache) == ["m"]


def test_waiting_for_another_process_ends(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from filelock import FileLock

    cache.mkdir(parents=True)
    monkeypatch.setattr(model_cache, "LOCK_SECONDS", 0.2)
    stages: list[str] = []
    with FileLock(cache / ".m.lock"), pytest.raises(ConfigError, match=r"end that process"):
        make("m", write_weights, needs=0, progress=lambda stage, _: stages.append(stage))
    assert stages == ["waiting for another process that is making it"]


def test_too_little_space_is_reported_before_anything_is_written(cache: Path) -> None:
    too_much = shutil.disk_usage(cache.parent.parent).free + 10**12
    with pytest.raises(ConfigError, match=r"disk is full: \d+ MB are needed .* AGENTFLY_CACHE"):
        make("m", write_weights, needs=too_much, progress=quiet)
    assert names_in(cache) == []


_FILL_A_SMALL_DISK = """
    import sys
    from agentfly.errors import ConfigError
    from agentfly.models.model_cache import cache_folder, make
    def build(folder, progress):
        try:
            (folder / "weights").write_bytes(bytes(8_000_000))
        except OSError:
            raise RuntimeError("a library's own words")
    try:
        make("m", build, needs=0, progress=print)
    except ConfigError as error:
        print(error, [p.name for p in cache_folder().iterdir() if "half" in p.name])
"""


def test_a_disk_that_fills_up_midway(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(_FILL_A_SMALL_DISK))
    mount = f"mount -t tmpfs -o size=4m none {small} && exec {sys.executable} {program}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
        env={**os.environ, "AGENTFLY_CACHE": str(small)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no small disk can be made here: {done.stderr}")
    assert "the disk is full" in done.stdout, done.stderr
    assert done.stdout.endswith("[]\n")


def test_a_cache_that_can_t_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AGENTFLY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigError, match=r"can't be written.*AGENTFLY_CACHE"):
        make("m", write_weights, needs=0, progress=quiet)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_a_cache_that_can_t_even_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFLY_CACHE", "/proc/x")
    with pytest.raises(ConfigError, match=r"/proc/x/models can't be written.*AGENTFLY_CACHE"):
        make("m", write_weights, needs=0, progress=quiet)


def test_a_file_that_a_build_misses_is_no_fault_of_the_cache(cache: Path) -> None:
    def build(folder: Path, progress: Progress) -> None:
        (folder / "never written").read_bytes()

    with pytest.raises(FileNotFoundError, match="never written"):
        make("m", build, needs=0, progress=quiet)
