"""Checkpoints are whole or absent, and the right ones stay."""

import errno
import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfly.errors import ConfigError, FormatError, RunError
from agentfly.training.checkpoint import Checkpoints, Write
from agentfly.training.manifest import HASHED_BYTES


def writing(text: str) -> Write:
    def write(folder: Path) -> None:
        (folder / "model").mkdir()
        (folder / "model" / "weights.bin").write_text(text)
        (folder / "trainer.json").write_text(json.dumps({"text": text}))

    return write


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def saved(folder: Path, *scores: float | None, keep: int = 2) -> Checkpoints:
    """Save steps 1, 2, … with these scores."""
    checkpoints = Checkpoints(folder, keep=keep)
    for step, score in enumerate(scores, start=1):
        checkpoints.save(step, writing(f"weights {step}"), score=score)
    return checkpoints


def test_what_was_saved_last_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    assert Checkpoints(folder).latest() is None
    saved(folder, 0.25, None)
    latest = Checkpoints(folder).latest()
    assert latest is not None
    assert (latest.step, latest.score, latest.path) == (2, None, folder / "step_2")
    assert (latest.path / "model" / "weights.bin").read_text() == "weights 2"


def test_steps_are_numbers_not_words(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(9, writing("nine"))
    checkpoints.save(10, writing("ten"))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 10


@pytest.mark.parametrize(
    ("scores", "keep", "left"),
    [
        ([None, None, None], 2, ["step_2", "step_3"]),
        ([None, None, None], 1, ["step_3"]),
        ([0.1, 0.9, 0.2, 0.3, 0.4], 2, ["step_2", "step_4", "step_5"]),
        ([0.5, 0.5, 0.1, 0.2], 1, ["step_2", "step_4"]),
        ([0.1, 0.2, 0.3], 2, ["step_2", "step_3"]),
        ([-2.0, None, None, None], 1, ["step_1", "step_4"]),
    ],
)
def test_the_newest_and_the_best_stay(
    tmp_path: Path, scores: list[float | None], keep: int, left: list[str]
) -> None:
    saved(tmp_path, *scores, keep=keep)
    assert names(tmp_path) == left


def test_the_best_is_found(tmp_path: Path) -> None:
    best = saved(tmp_path, 0.1, 0.9, None, 0.3).best()
    assert best is not None
    assert (best.step, best.score) == (2, 0.9)
    assert saved(tmp_path / "unscored", None).best() is None


def test_at_least_one_must_stay(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        Checkpoints(tmp_path, keep=0)


def test_a_step_that_is_saved_again_is_replaced(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 0.1)
    checkpoints.save(1, writing("anew"), score=0.2)
    latest = checkpoints.latest()
    assert latest is not None
    assert (latest.path / "model" / "weights.bin").read_text() == "anew"
    assert (latest.score, names(tmp_path)) == (0.2, ["step_1"])


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda c: (c / "manifest.json").unlink(), "not written to its end"),
    "half a manifest": (lambda c: (c / "manifest.json").write_text('{"v": 1,'), "can't be read"),
    "another manifest": (lambda c: (c / "manifest.json").write_text("[]"), "can't be read"),
    "newer": (
        lambda c: (c / "manifest.json").write_text('{"v":9,"step":2,"score":null,"files":{}}'),
        "its format is 9",
    ),
    "a file is gone": (lambda c: (c / "trainer.json").unlink(), "trainer.json is missing"),
    "a file is short": (
        lambda c: (c / "model" / "weights.bin").write_text("weigh"),
        "model/weights.bin has 5 bytes instead of 9",
    ),
    "a file is other": (
        lambda c: (c / "model" / "weights.bin").write_text("weights 3"),
        "SHA-256 differs",
    ),
    "another step": (
        lambda c: rewrite(c, lambda manifest: {**manifest, "step": 0}),
        "its manifest.json is not what was written",
    ),
    "another step, version 1": (
        lambda c: rewrite(c, lambda manifest: of_version_1({**manifest, "step": 0})),
        "its manifest.json is of step 0",
    ),
    "no files": (
        lambda c: rewrite(c, lambda manifest: of_version_1({**manifest, "files": {}})),
        "its manifest.json lists no files",
    ),
    "files of wrong types": (
        lambda c: rewrite(c, lambda manifest: of_version_1({**manifest, "files": {"a": [1]}})),
        "can't be read (files.a",
    ),
    "a score of a wrong type": (
        lambda c: rewrite(c, lambda manifest: of_version_1({**manifest, "score": "high"})),
        "can't be read (score",
    ),
    "files outside": (
        lambda c: rewrite(
            c, lambda manifest: of_version_1({**manifest, "files": {"../x": {"size": 1}}})
        ),
        "not inside the folder",
    ),
}


def rewrite(checkpoint: Path, change: Callable[[dict[str, object]], object]) -> None:
    manifest = checkpoint / "manifest.json"
    manifest.write_text(json.dumps(change(json.loads(manifest.read_text()))))


def of_version_1(manifest: dict[str, object]) -> dict[str, object]:
    """Return what was written before manifests had a checksum of their own."""
    return {key: value for key, value in {**manifest, "v": 1}.items() if key != "sha256"}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_one_is_ignored_with_the_reason(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    checkpoints = saved(tmp_path, None, None)
    break_it, reason = DAMAGES[damage]
    break_it(tmp_path / "step_2")
    with caplog.at_level(logging.WARNING):
        latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 1
    assert "step_2 is ignored" in caplog.text
    assert reason in caplog.text


def test_a_flipped_bit_of_a_large_file_is_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = saved(tmp_path, None)
    checkpoints.save(2, lambda folder: _grow(folder / "trainer.pt"))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 2
    with (latest.path / "trainer.pt").open("rb+") as file:
        file.seek(HASHED_BYTES // 2)
        file.write(b"\x01")
    with caplog.at_level(logging.WARNING):
        earlier = checkpoints.latest()
    assert earlier is not None
    assert earlier.step == 1
    assert "step_2 is ignored: trainer.pt is not what was written: its CRC-32 dif" in caplog.text


def test_a_large_file_of_an_earlier_version_is_known_by_its_size(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, lambda folder: _grow(folder / "trainer.pt"))
    manifest = tmp_path / "step_1" / "manifest.json"
    read = json.loads(manifest.read_text())
    del read["files"]["trainer.pt"]["crc32"], read["sha256"]
    manifest.write_text(json.dumps({**read, "v": 1}))
    assert checkpoints.latest() is not None


def _grow(path: Path) -> None:
    """Make a file that is too large to be hashed, and takes no room."""
    with path.open("wb") as file:
        file.truncate(HASHED_BYTES + 1)


def test_a_damaged_one_is_replaced_when_its_step_is_saved_again(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, None, None)
    (tmp_path / "step_2" / "manifest.json").unlink()
    checkpoints.save(2, writing("anew"))
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 2


def test_a_damaged_one_does_not_push_out_a_good_one(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, None, None)
    (tmp_path / "step_2" / "manifest.json").unlink()
    checkpoints.save(3, writing("three"))
    assert names(tmp_path) == ["step_1", "step_2", "step_3"]


def test_what_a_killed_process_left_is_no_checkpoint_and_is_removed(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, None)
    for left in ("step_2.part", "step_7.gone", "step_1.old"):
        (tmp_path / left).mkdir()
        (tmp_path / left / "manifest.json").write_text("{}")
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 1
    checkpoints.save(3, writing("three"))
    assert names(tmp_path) == ["step_1", "step_3"]


def test_a_process_killed_while_it_replaced_a_checkpoint_leaves_the_old_one(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, None)
    (tmp_path / "step_1").rename(tmp_path / "step_1.old")
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.path == tmp_path / "step_1"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_the_last_good_one(tmp_path: Path, number: int) -> None:
    def full(folder: Path) -> None:
        (folder / "half.bin").write_text("hal")
        raise OSError(number, "no room")

    checkpoints = saved(tmp_path, None, None)
    with pytest.raises(RunError, match=r"step 3 could not .* disk is full.*step_2.*--resume"):
        checkpoints.save(3, full)
    assert names(tmp_path) == ["step_1", "step_2"]
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 2


def test_a_writer_that_fails_for_its_own_reasons_fails_under_its_own_name(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        raise KeyError("optimizer")

    checkpoints = Checkpoints(tmp_path)
    with pytest.raises(KeyError, match="optimizer"):
        checkpoints.save(1, broken)
    assert names(tmp_path) == []
    with pytest.raises(RunError, match="there is no earlier one"):
        checkpoints.save(1, lambda folder: (folder / "gone").unlink())


def test_any_flipped_bit_of_a_manifest_is_harmless_or_seen(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 0.25, 0.5)
    manifest = tmp_path / "step_2" / "manifest.json"
    whole, seen = manifest.read_bytes(), 0
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        manifest.write_bytes(damaged)
        latest = checkpoints.latest()
        assert latest is not None
        assert (latest.step, latest.score) in ((2, 0.5), (1, 0.25))
        seen += latest.step == 1
    blanks = sum(whole.count(blank) for blank in (b" ", b"\n"))
    # A blank that becomes another blank changes nothing.
    assert seen >= (len(whole) - blanks) * 8


def test_a_checksum_counts_whatever_version_the_manifest_claims(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 0.25, 0.5)
    manifest = tmp_path / "step_2" / "manifest.json"
    claimed = manifest.read_text().replace('"v": 2', '"v": 1').replace("0.5", "0.9")
    manifest.write_text(claimed)
    latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 1


def test_checkpoints_that_are_all_damaged_are_no_new_beginning(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, None, None)
    (tmp_path / "step_1" / "trainer.json").unlink()
    (tmp_path / "step_2" / "manifest.json").write_text("{")
    with pytest.raises(FormatError, match="no checkpoint can be resumed from") as caught:
        checkpoints.latest()
    assert "step_1: trainer.json is missing" in str(caught.value)
    assert "step_2: its manifest.json can't be read" in str(caught.value)
    assert checkpoints.best() is None


def test_checkpoints_of_version_1_stay_readable(tmp_path: Path) -> None:
    checkpoints = saved(tmp_path, 0.5)
    rewrite(tmp_path / "step_1", of_version_1)
    latest = checkpoints.latest()
    assert latest is not None
    assert (latest.step, latest.score) == (1, 0.5)
