import gzip
import json
from pathlib import Path

import pytest

from agentfly.errors import ConfigError, FormatError
from agentfly.observe import TrajectoryWriter, compact, read_trajectories
from agentfly.types import Message, Score, StopReason, Task, Trajectory


def chain(index: int) -> Trajectory:
    return Trajectory(
        task=Task(id="sum", messages=(), fields={"answer": index}),
        group_id="sum/0",
        chain_id=f"sum/0/{index}",
        messages=(Message(role="user", content=f"\ud800 {index}\n"),),
        stop=StopReason.ANSWERED,
        score=Score(value=0.1 * index),
    )


CHAINS = [chain(index) for index in range(3)]


def save(path: Path, chains: list[Trajectory]) -> None:
    with TrajectoryWriter(path) as writer:
        for trajectory in chains:
            writer.write(trajectory)


def test_files_are_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS[:2])
    save(path, CHAINS[2:])
    assert list(read_trajectories(path)) == CHAINS


def test_a_line_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS[:1])
    record = json.loads(path.read_text())
    assert (record["v"], record["kind"], record["chain_id"]) == (2, "trajectory", "sum/0/0")


def test_files_of_the_first_format_are_read(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS[:1])
    text = path.read_text()
    first = text.replace('{"v":2', '{"v":1').replace(',"invalid":false', "")
    assert text.count('"invalid":false') == len(CHAINS[0].turns)
    path.write_text(first)
    assert list(read_trajectories(path)) == CHAINS[:1]


def test_what_was_written_can_be_read_while_the_writer_is_open(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    with TrajectoryWriter(path) as writer:
        for count, trajectory in enumerate(CHAINS, start=1):
            writer.write(trajectory)
            assert list(read_trajectories(path)) == CHAINS[:count]
        writer.sync()


def test_a_torn_line_is_never_mixed_with_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS[:2])
    path.write_bytes(path.read_bytes()[:-30])
    assert list(read_trajectories(path)) == CHAINS[:1]
    save(path, CHAINS[2:])
    assert list(read_trajectories(path)) == [CHAINS[0], CHAINS[2]]
    assert "skipped an unfinished last line" in caplog.text
    assert "cut off" in caplog.text


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS)
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace('"answered"', '"vanished"')
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FormatError, match=r"step_1\.jsonl:2: stop: .*'answered'"):
        list(read_trajectories(path))


def test_a_newer_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS)
    path.write_text(path.read_text().replace('{"v":2', '{"v":3'))
    with pytest.raises(FormatError, match=r"step_1\.jsonl:1 .* newer AgentFly.*--upgrade"):
        list(read_trajectories(path))


def test_a_compacted_step_is_read_by_either_name(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS)
    lines = path.read_bytes()
    packed = compact(path)
    assert packed == tmp_path / "step_1.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == lines
    assert [file.name for file in tmp_path.iterdir()] == ["step_1.jsonl.gz"]
    assert list(read_trajectories(path)) == list(read_trajectories(packed)) == CHAINS


def test_compacting_again_finishes_what_a_crash_cut_short(tmp_path: Path) -> None:
    path, packed = tmp_path / "step_1.jsonl", tmp_path / "step_1.jsonl.gz"
    save(path, CHAINS)
    (tmp_path / "step_1.jsonl.gz.part").write_bytes(b"left half-written")
    first = compact(path).read_bytes()
    assert compact(path) == packed, "there is nothing left to do"

    # Killed after the new file was in place, before the old one was gone.
    path.write_bytes(gzip.decompress(first))
    assert list(read_trajectories(path)) == CHAINS
    assert compact(path).read_bytes() == first
    assert [file.name for file in tmp_path.iterdir()] == ["step_1.jsonl.gz"]


def test_compacting_drops_a_torn_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS)
    path.write_bytes(path.read_bytes()[:-1])
    assert list(read_trajectories(compact(path))) == CHAINS[:2]
    assert "skipped an unfinished last line" in caplog.text


def test_a_compacted_step_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "step_1.jsonl"
    save(path, CHAINS)
    compact(path)
    with pytest.raises(ConfigError, match="has been compacted"):
        TrajectoryWriter(path)
    assert list(read_trajectories(path)) == CHAINS
