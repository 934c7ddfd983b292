"""A file is whole, or what it was before."""

import os
from pathlib import Path

import pytest

from agentfly.observe.trackers.tracked_run import IDENTITIES, TrackedRun
from agentfly.observe.whole_file import whole_file


def test_what_fails_midway_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in (b"first", b"second"):
        with whole_file(path) as file:
            file.write(text)
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_bytes() == b"second"


def test_a_run_s_identities_survive_a_disk_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = TrackedRun(folder=tmp_path, name="a", project="b", settings={}, resume_after=None)
    assert run.identity("wandb", lambda: "4f09") == "4f09"

    def fails(_: int) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="no room"):
            run.identity("mlflow", lambda: "77aa")
    assert (tmp_path / IDENTITIES).read_text() == '{"wandb": "4f09"}\n'
    assert run.identity("wandb", lambda: "another") == "4f09"
