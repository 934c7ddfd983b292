"""The index of a run's chains: what it holds, and that nothing makes it wrong."""

import gzip
from pathlib import Path

import pytest
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import record_run, write_chains

from agentfly.observe import TrajectoryWriter, compact, trajectory_file
from agentfly.observe.chain_index import RunIndex
from agentfly.observe.chain_place import placed_lines, read_line
from agentfly.observe.recorded_run import RecordedRun
from agentfly.types import Span, SpanKind, StopReason, ToolStatus

SPANS = (
    Span(kind=SpanKind.QUEUE, name="admission", turn=None, start=0.0, end=0.5),
    Span(kind=SpanKind.GENERATE, name="model", turn=0, start=0.5, end=9.5),
    Span(kind=SpanKind.TOOL, name="calculator", turn=0, start=9.5, end=11.5),
)
GROUPS = [
    group(
        "6*7",
        [
            chain(1.0, turn(ToolStatus.OK, ToolStatus.ERROR, version=3), spans=SPANS),
            chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: gone"),
        ],
    ),
    scored("8*9", 0.5, 0.25),
]


def ids(index: RunIndex) -> list[tuple[int, str]]:
    index.refresh(60.0)
    return [(file.step, row.chain_id) for file, row in index.rows()]


def opened(folder: Path) -> RunIndex:
    return RunIndex(RecordedRun(folder))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return record_run(tmp_path / "demo", steps={1: [scored("old", 0.0)], 2: GROUPS})


EXPECTED = [(1, "old/0/0"), (2, "6*7/0/0"), (2, "6*7/0/1"), (2, "8*9/0/0"), (2, "8*9/0/1")]


def test_a_row_has_what_tables_need(run: Path) -> None:
    index = opened(run)
    assert ids(index) == EXPECTED
    row = next(row for _, row in index.rows() if row.chain_id == "6*7/0/0")
    assert (row.reward, row.turns, row.tokens, row.version) == (1.0, 1, 4, 3)
    assert row.tools == {"calculator": {"ok": 1, "error": 1}}
    assert (row.calls, row.failed_calls) == (2, 1)
    assert row.seconds == {"queue": 0.5, "generate": 9.0, "tool": 2.0}
    assert row.longest == ("tool", "calculator", 2.0)
    failed = next(row for _, row in index.rows() if row.chain_id == "6*7/0/1")
    assert (failed.reward, failed.stop, failed.cause) == (None, "env_crashed", "EnvError")
    found = index.read("step_2.jsonl.gz", "6*7/0/0")
    assert found is not None
    assert found.chain_id == "6*7/0/0"
    assert index.read("step_2.jsonl.gz", "nothing") is None


def test_only_what_is_asked_for_is_read(run: Path) -> None:
    index = opened(run)
    index.refresh(60.0, rows=2)
    assert [row.chain_id for _, row in index.rows()] == ["6*7/0/0", "6*7/0/1"], "the last step"
    assert index.share < 1.0
    index.refresh(60.0)
    assert index.share == 1.0
    other = opened(run)
    other.refresh(60.0, file="step_1")
    assert [row.chain_id for _, row in other.rows()] == ["old/0/0"]


def test_an_index_that_was_cut_anywhere_is_continued(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = opened(run)
    ids(whole)
    file = run / "index" / "step_2.jsonl"
    content = file.read_bytes()
    for length in range(0, len(content), 97):
        file.write_bytes(content[:length])
        assert ids(opened(run)) == EXPECTED, length
        assert file.read_bytes() == content, length
    # One that is whole is not made again: no chain is decoded.
    monkeypatch.setattr("agentfly.observe.chain_index.decode_line", None)
    assert ids(opened(run)) == EXPECTED


def test_an_index_of_another_file_is_made_again(run: Path) -> None:
    ids(opened(run))
    replaced = run / "trajectories" / "step_2.jsonl.gz"
    replaced.unlink()
    write_chains(run / "trajectories" / "step_2.jsonl", [scored("new", 0.5)])
    assert ids(opened(run)) == [(1, "old/0/0"), (2, "new/0/0")]
    (run / "index" / "step_1.jsonl").write_text('{"v":1,"kind":"chain_index"}\nnonsense\n{}\n')
    assert ids(opened(run)) == [(1, "old/0/0"), (2, "new/0/0")]


def test_a_step_under_way_grows_and_is_compacted(run: Path) -> None:
    index, file = opened(run), run / "trajectories" / "step_3.jsonl"
    with TrajectoryWriter(file) as writer:
        writer.write_group(scored("a", 1.0))
        assert ids(index)[-1] == (3, "a/0/0")
        writer.write_group(scored("b", 1.0))
        assert [name for _, name in ids(index)][-2:] == ["a/0/0", "b/0/0"]
    with file.open("ab") as torn:
        torn.write(b'{"v":1,"kind":"trajec')
    assert len(ids(index)) == len(EXPECTED) + 2
    compact(file)
    assert [name for _, name in ids(index)][-2:] == ["a/0/0", "b/0/0"]
    assert len(ids(index)) == len(EXPECTED) + 2
    # A resumed run takes the step again: the same name, other chains, no shorter than before.
    file.with_name("step_3.jsonl.gz").rename(run / "undone.gz")
    write_chains(file, [scored("c", 1.0, 1.0, 0.0)], packed=False)
    assert [name for _, name in ids(index)][-3:] == ["c/0/0", "c/0/1", "c/0/2"]
    assert [name for _, name in ids(opened(run))][-3:] == ["c/0/0", "c/0/1", "c/0/2"]


def test_damaged_chains_are_named_and_the_others_shown(run: Path) -> None:
    packed = run / "trajectories" / "step_1.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    lines = gzip.decompress((run / "trajectories" / "step_2.jsonl.gz").read_bytes()).splitlines()
    lines[1] = b'{"v":1,"kind":"trajectory","chain_id":5}'
    (run / "trajectories" / "step_2.jsonl.gz").write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))
    index = opened(run)
    assert [name for _, name in ids(index)] == ["old/0/0", "6*7/0/0", "8*9/0/0", "8*9/0/1"]
    cut, wrong = index.problems
    assert "step_1.jsonl.gz is cut off" in cut
    assert "step_2.jsonl.gz" in wrong


def test_a_folder_that_can_not_be_written_is_indexed_in_memory(run: Path) -> None:
    (run / "index").write_text("in the way")
    assert ids(opened(run)) == EXPECTED


def test_compacted_files_are_read_from_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trajectory_file, "MEMBER_BYTES", 100)
    plain = tmp_path / "step_1.jsonl"
    lines = [b"%d %s\n" % (number, b"x" * 77) for number in range(20)]
    plain.write_bytes(b"".join(lines))
    found = list(placed_lines(plain))
    packed = compact(plain)
    assert gzip.decompress(packed.read_bytes()) == b"".join(lines)
    placed = list(placed_lines(packed))
    assert [line for _, line in placed] == [line for _, line in found] == lines
    assert len({place.member for place, _ in placed}) == 10
    for place, line in placed:
        assert read_line(packed, place) == line
        rest = [later for _, later in placed_lines(packed, place.after)]
        assert rest == lines[lines.index(line) + 1 :]
    # One member, and lines across members, as other programs may write them.
    middle = len(lines[0]) * 3 + 11
    whole = b"".join(lines)
    packed.write_bytes(gzip.compress(whole[:middle]) + gzip.compress(whole[middle:]))
    placed = list(placed_lines(packed))
    assert [read_line(packed, place) for place, _ in placed] == lines


def test_a_file_that_vanishes_is_no_crash(run: Path) -> None:
    index = opened(run)
    ids(index)
    (run / "trajectories" / "step_1.jsonl.gz").unlink()
    assert ids(index) == EXPECTED[1:]
