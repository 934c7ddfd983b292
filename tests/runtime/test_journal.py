import gzip
import json
import logging
import resource
from pathlib import Path
from typing import Any

import pytest

from agentfly.errors import ConfigError, FormatError
from agentfly.runtime import journal as journal_module
from agentfly.runtime.journal import Journal, read_records


def records(path: Path, version: int = 1) -> list[dict[str, Any]]:
    return [record for _, record in read_records(path, kind="note", version=version)]


def note(text: str) -> dict[str, Any]:
    return {"v": 1, "kind": "note", "text": text}


def open_journal(path: Path) -> Journal:
    return Journal(path, kind="note", version=1)


def test_records_are_plain_lines(tmp_path: Path) -> None:
    path = tmp_path / "made" / "on the way" / "notes.jsonl"
    with open_journal(path) as journal:
        journal.append({"text": "one"})
        assert path.read_bytes() == b'{"v":1,"kind":"note","text":"one"}\n', "before any close"
        journal.append({"text": "line\nbreak \u2028 \ud800"})
    assert path.read_bytes().isascii()
    assert records(path) == [note("one"), note("line\nbreak \u2028 \ud800")]


def test_every_torn_tail_is_skipped_and_then_cut_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.jsonl"
    with open_journal(path) as journal:
        journal.append({"text": "first"})
        journal.append({"text": "second"})
    whole = path.read_bytes()
    first_line = whole.index(b"\n") + 1
    for length in range(first_line + 1, len(whole)):
        caplog.clear()
        path.write_bytes(whole[:length])
        assert records(path) == [note("first")]
        assert "notes.jsonl:2" in caplog.text
        with open_journal(path) as journal:
            journal.append({"text": "third"})
        assert records(path) == [note("first"), note("third")]
        assert f"cut off {length - first_line} bytes" in caplog.text


def test_a_tail_longer_than_a_block_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(journal_module, "BLOCK", 16)
    for kept in (b"", b'{"v":1,"kind":"note","text":"kept"}\n'):
        path = tmp_path / f"{len(kept)}.jsonl"
        path.write_bytes(kept + b"x" * 1000)
        with open_journal(path):
            assert path.read_bytes() == kept
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_a_whole_file_is_opened_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.jsonl"
    for _ in range(2):
        with open_journal(path) as journal:
            journal.append({"text": "x"})
    assert records(path) == [note("x"), note("x")]
    assert caplog.text == ""


def test_a_full_disk_leaves_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_journal(path) as journal:
        journal.append({"text": "fits"})
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                journal.append({"text": "x" * 200})
            assert records(path) == [note("fits")]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        journal.append({"text": "later"})
    assert records(path) == [note("fits"), note("later")]


def test_there_is_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    with open_journal(path), pytest.raises(ConfigError, match="another process"):
        open_journal(path)
    open_journal(path).close()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"v":1,"kind":"no', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "got 'list'"),
        (b'{"v":1,"kind":"ledger"}', "got 'ledger'"),
        (b'{"kind":"note"}', "no format version"),
        (b'{"v":3,"kind":"note"}', "format 3 .* reads up to 2. Upgrade: pip install"),
    ],
)
def test_a_broken_line_in_the_middle_is_named(tmp_path: Path, line: bytes, problem: str) -> None:
    path = tmp_path / "notes.jsonl"
    good = json.dumps(note("good")).encode()
    path.write_bytes(b"\n".join([good, line, good, b""]))
    with pytest.raises(FormatError, match=rf"notes\.jsonl:2 .*{problem}"):
        records(path, version=2)


def test_a_damaged_gzip_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl.gz"
    packed = gzip.compress(b"".join(json.dumps(note(str(n))).encode() + b"\n" for n in range(500)))
    path.write_bytes(packed)
    assert len(records(path)) == 500
    for damaged in (packed[:-20], packed[:40] + b"damage" + packed[46:], b"no gzip at all"):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="is damaged after line"):
            records(path)


def checked(path: Path) -> list[dict[str, Any]]:
    return [r for _, r in read_records(path, kind="note", version=2, checksums_from=2)]


def test_any_flipped_bit_of_a_line_with_a_checksum_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    with Journal(path, kind="note", version=2, checksums=True) as journal:
        journal.append({"step": 4, "text": "four"})
        journal.append({"step": 5})
    assert checked(path) == [
        {"v": 2, "kind": "note", "step": 4, "text": "four"},
        {"v": 2, "kind": "note", "step": 5},
    ]
    whole = path.read_bytes()
    newline = whole.index(b"\n")
    for bit in range(newline * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"notes\.jsonl:1 .*Restore"):
            checked(path)


def test_lines_of_versions_without_checksums_stay_readable(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    with open_journal(path) as journal:
        journal.append({"text": "old"})
    with Journal(path, kind="note", version=2, checksums=True) as journal:
        journal.append({"text": "new"})
    assert [record["text"] for record in checked(path)] == ["old", "new"]


def test_a_line_may_not_lose_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text('{"v":2,"kind":"note","text":"bare"}\n')
    with pytest.raises(FormatError, match="checksum is wrong"):
        checked(path)
