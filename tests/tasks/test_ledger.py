import json
import os
import re
import resource
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.errors import ConfigError, FormatError
from agentfly.tasks import Ledger, Visit, load_tasks
from agentfly.tasks.ledger import trained_groups
from agentfly.types import Seed, StopReason

TASKS = load_tasks([*({"id": name} for name in "abcde"), {"question": "x"}, {"question": "x"}])
ANSWERED = {StopReason.ANSWERED: 2}


def open_ledger(path: Path | None, *, epochs: int | None = 2, step: int | None = None) -> Ledger:
    return Ledger.open(path, TASKS, seed=Seed(7), epochs=epochs, step=step)


def ids(visits: list[Visit]) -> list[str]:
    return [visit.group_id for visit in visits]


Trained = list[tuple[int, list[str]]]
"""The groups of each step: what the weights have learned."""


def run(ledger: Ledger, weights: Trained, *, batch: int = 3) -> None:
    """Train to the end, three groups a step, and finish them out of order."""
    for step in count(ledger.step + 1):
        missing = batch - len(ledger.ready())
        for visit in reversed(ledger.issue(missing)):
            ledger.finish(visit.group_id, ANSWERED)
        groups = ids(ledger.ready())[:batch]
        if not groups:
            return
        ledger.train(groups, step=step)
        weights.append((step, groups))


def uninterrupted(path: Path, *, epochs: int = 2) -> Trained:
    weights: Trained = []
    with open_ledger(path, epochs=epochs) as ledger:
        run(ledger, weights)
    return weights


def trained_lines(path: Path) -> Trained:
    lines = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return [(line["step"], line["groups"]) for line in lines if line["do"] == "train"]


def test_the_groups_of_each_step_are_read_in_the_order_of_the_learner(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert trained_groups(path) == {}
    weights = uninterrupted(path)
    assert trained_groups(path) == dict(weights)
    with open_ledger(path, step=1) as ledger:
        again = ids(ledger.issue(1))
        ledger.finish(again[0], ANSWERED)
        ledger.train(again, step=2)
    assert trained_groups(path)[2] == again != weights[1][1], "the later one"


def test_a_run_visits_every_row_once_an_epoch(tmp_path: Path) -> None:
    weights = uninterrupted(tmp_path / "ledger.jsonl")
    groups = [group for _, batch in weights for group in batch]
    assert [len(batch) for _, batch in weights] == [3, 3, 3, 3, 2]
    assert len(set(groups)) == 14, "seven rows, two epochs"
    assert {group.split("/")[0] for group in groups[:7]} == {task.id for task in TASKS}


@pytest.fixture
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of runs are killed below: by the process's end, which needs no sync."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.mark.usefixtures("quick_disk")
def test_killed_at_any_byte_it_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    expected = uninterrupted(tmp_path / "whole.jsonl", epochs=1)
    whole = (tmp_path / "whole.jsonl").read_bytes()
    path = tmp_path / "killed.jsonl"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        weights = trained_lines(path)
        with open_ledger(path, epochs=1) as ledger:
            run(ledger, weights)
        assert weights == expected, f"killed at byte {length}"
        assert trained_lines(path) == expected


@settings(max_examples=15)
@given(data=st.data())
def test_killed_again_and_again_and_resumed_from_older_checkpoints(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        expected = uninterrupted(Path(folder) / "whole.jsonl")
        path = Path(folder) / "killed.jsonl"
        path.touch()
        for _ in range(4):
            with open_ledger(path) as ledger:
                last = ledger.step
            # A run that was resumed from a checkpoint before is not begun anew without any.
            first = min(1, last) if b'"do":"rewind"' in path.read_bytes() else 0
            checkpoint = data.draw(st.integers(first, last), label="checkpoint")
            weights = [(step, groups) for step, groups in expected if step <= checkpoint]
            with open_ledger(path, step=checkpoint) as ledger:
                assert ledger.step == checkpoint
                run(ledger, weights)
            assert weights == expected
            written = path.read_bytes()
            path.write_bytes(written[: data.draw(st.integers(0, len(written)), label="killed at")])


def test_training_and_all_before_it_outlives_a_power_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    path = tmp_path / "ledger.jsonl"
    ledger = open_ledger(path)
    [group] = ids(ledger.issue(1))
    ledger.finish(group, ANSWERED)
    before = synced.copy()
    assert before[-1] < path.stat().st_size, "finishing waits for no disk"
    ledger.train([group], step=1)
    assert synced == [*before, path.stat().st_size]
    ledger.close()


def test_a_rewind_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    weights = uninterrupted(path)
    with open_ledger(path, step=2) as ledger:
        assert ledger.progress.trained == 6
        assert ledger.position == 6, "what was issued later is forgotten"
        [next_one] = ledger.issue(1)
        assert next_one.group_id in weights[2][1]
    with open_ledger(path) as ledger:
        assert ledger.step == 2
        assert ledger.unfinished() == [next_one]
    with open_ledger(path, step=2) as ledger:
        assert ledger.unfinished() == [], "it was issued after the checkpoint"
    with pytest.raises(FormatError, match="a checkpoint of step 2 was saved, and there is none"):
        open_ledger(path, step=0)


def test_a_run_that_goes_back_behind_its_last_checkpoint_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.jsonl"
    uninterrupted(path)
    with open_ledger(path) as ledger:
        ledger.save()
        last = ledger.step
    open_ledger(path, step=last).close()
    assert caplog.text == ""
    open_ledger(path, step=2).close()
    assert f"goes back to step 2, although a checkpoint of step {last} was saved" in caplog.text
    caplog.clear()
    open_ledger(path, step=2).close()
    assert caplog.text == "", "it was said once, and the run has gone on from there"


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.jsonl"
    uninterrupted(path)
    with open_ledger(path, step=0) as ledger:
        assert ledger.position == 0
    assert caplog.text == ""


@pytest.mark.parametrize("content", [None, ""])
def test_a_lost_ledger_is_not_started_again(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "ledger.jsonl"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FormatError, match=r"is lost.*Restore it from a copy, or start a new run"):
        open_ledger(path, step=2)
    assert path.exists() is (content is not None)


def test_what_was_in_flight_goes_first_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        first = ledger.issue(5)
        ledger.finish(first[3].group_id, ANSWERED)
        ledger.finish(first[1].group_id, ANSWERED)
    with open_ledger(path) as ledger:
        assert ledger.position == 5
        assert ledger.unfinished() == [first[0], first[2], first[4]]
        assert ledger.ready() == [first[1], first[3]]
        assert ledger.issue(2) == [first[0], first[2]]
        again_and_new = ledger.issue(2)
        assert again_and_new[0] == first[4]
        assert again_and_new[1].position == 5


def test_a_live_ledger_does_not_repeat_itself() -> None:
    ledger = open_ledger(None)
    assert ids(ledger.issue(2)) != ids(ledger.issue(2))
    assert len(ledger.unfinished()) == 4


def test_the_last_epoch_ends() -> None:
    ledger = open_ledger(None, epochs=1)
    assert len(ledger.issue(100)) == 7
    assert ledger.issue(1) == []


def test_without_epochs_it_never_ends() -> None:
    assert len(set(ids(open_ledger(None, epochs=None).issue(100)))) == 100


def test_progress_counts_by_hand() -> None:
    ledger = open_ledger(None)
    groups = ids(ledger.issue(6))
    for group in groups[:4]:
        ledger.finish(group, {StopReason.ANSWERED: 3, StopReason.ENV_CRASHED: 1})
    ledger.train(groups[:2], step=1)
    ledger.abandon(groups[5], "all its chains failed")
    ledger.issue(2)
    ledger.train([], step=3)
    progress = ledger.progress
    assert (progress.issued, progress.in_flight, progress.ready) == (8, 3, 2)
    assert (progress.trained, progress.abandoned) == (2, 1)
    assert (progress.epoch, progress.step) == (1, 3)
    assert progress.staleness == 3, "groups 2 to 4 were issued at step 0"
    assert progress.stops == {"answered": 12, "env_crashed": 4}


def test_a_group_that_is_issued_again_is_fresh(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        old, new = ids(ledger.issue(2))
        ledger.finish(new, ANSWERED)
        ledger.train([new], step=1)
        assert ledger.progress.staleness == 1
    with open_ledger(path) as ledger:
        assert ids(ledger.issue(1)) == [old]
        assert ledger.progress.staleness == 0


def test_a_finished_group_can_be_done_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        groups = ids(ledger.issue(3))
        for group in groups:
            ledger.finish(group, ANSWERED)
        ledger.reissue(groups[2])
        ledger.reissue(groups[0])
        assert ids(ledger.ready()) == [groups[1]]
        assert ids(ledger.issue(1)) == [groups[0]], "in order"
    with open_ledger(path) as ledger:
        assert ids(ledger.issue(2)) == [groups[0], groups[2]]


def test_an_abandoned_group_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        running, finished = ids(ledger.issue(2))
        ledger.finish(finished, ANSWERED)
        ledger.abandon(running, "cancelled")
        ledger.abandon(finished, "no signal")
    with open_ledger(path) as ledger:
        assert ledger.unfinished() == []
        assert ledger.ready() == []
        assert ledger.progress.abandoned == 2
        assert ledger.issue(1)[0].position == 2


def mistakes() -> list[tuple[str, Callable[[Ledger, str], None]]]:
    return [
        ("'zz/0' is not in flight", lambda ledger, _: ledger.finish("zz/0", ANSWERED)),
        ("is not in flight", lambda ledger, done: ledger.finish(done, ANSWERED)),
        ("is not finished and untrained", lambda ledger, done: ledger.reissue(done)),
        ("trained once, after they finished", lambda ledger, done: ledger.train([done], step=2)),
        ("is not open", lambda ledger, done: ledger.abandon(done, "x")),
        ("steps must rise: got 1 after 1", lambda ledger, _: ledger.train([], step=1)),
    ]


@pytest.mark.parametrize(("problem", "act"), mistakes())
def test_impossible_changes_are_refused_and_not_written(
    tmp_path: Path, problem: str, act: Callable[[Ledger, str], None]
) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        [done] = ids(ledger.issue(1))
        ledger.finish(done, ANSWERED)
        ledger.train([done], step=1)
        before = path.read_bytes()
        with pytest.raises(ValueError, match=problem):
            act(ledger, done)
        assert path.read_bytes() == before
    open_ledger(path).close()


CHANGES: dict[str, Callable[[Ledger, list[str]], object]] = {
    "issue": lambda ledger, _: ledger.issue(5),
    "finish": lambda ledger, groups: ledger.finish(groups[1], ANSWERED),
    "train": lambda ledger, groups: ledger.train([groups[0]], step=2),
    "abandon": lambda ledger, groups: ledger.abandon(groups[1], "x"),
    "reissue": lambda ledger, groups: ledger.reissue(groups[0]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_does_not_reach_the_file_has_not_happened(tmp_path: Path, change: str) -> None:
    path = tmp_path / "ledger.jsonl"
    uninterrupted(path)
    with open_ledger(path, epochs=9, step=1) as ledger:
        groups = ids(ledger.issue(4))
        ledger.finish(groups[0], ANSWERED)
    with open_ledger(path, epochs=9) as ledger:
        before, act = ledger.progress, CHANGES[change]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                act(ledger, groups)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert ledger.progress == before
        act(ledger, groups)
        assert ledger.progress.issued == (9 if change == "issue" else 7), "three again, two new"
        after = ledger.progress, ids(ledger.unfinished()), ids(ledger.ready())
    with open_ledger(path, epochs=9) as ledger:
        assert (ledger.progress, ids(ledger.unfinished()), ids(ledger.ready())) == after


def test_one_group_cannot_be_trained_twice_in_a_step() -> None:
    ledger = open_ledger(None)
    [group] = ids(ledger.issue(1))
    ledger.finish(group, ANSWERED)
    with pytest.raises(ValueError, match="trained once"):
        ledger.train([group, group], step=1)


def test_other_tasks_or_another_seed_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    open_ledger(path).close()
    with pytest.raises(ConfigError, match=r"seed 7 \(now 8\)\. Resume with"):
        Ledger.open(path, TASKS, seed=Seed(8))
    with pytest.raises(ConfigError, match=r"count 7 \(now 6\)"):
        Ledger.open(path, TASKS[:6], seed=Seed(7))
    open_ledger(path).close()


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    uninterrupted(path)
    with pytest.raises(ConfigError, match="knows of no training at step 6"):
        open_ledger(path, step=6)


def test_a_broken_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with open_ledger(path) as ledger:
        ledger.issue(2)
    whole = path.read_text()
    path.write_text(whole.replace('"issue"', '"forget"'))
    with pytest.raises(FormatError, match=r"ledger.jsonl:2 is damaged.*Restore.*start a new run"):
        open_ledger(path)
    # Version 1 had no checksums.
    whole = re.sub(r',"crc":"\w+"', "", whole.replace('"v":2', '"v":1'))
    for broken, problem in [
        (whole.replace('"issue"', '"forget"'), "ledger.jsonl:2 .*unknown change"),
        (whole.replace("/0", "/4"), "ledger.jsonl:2 .*/4' was issued where .*/0' is next"),
        (re.sub(r'("groups":)(\[.*\])', r"\1[\2]", whole), "ledger.jsonl:2 .*Restore"),
    ]:
        path.write_text(broken)
        with pytest.raises(FormatError, match=problem):
            open_ledger(path)
