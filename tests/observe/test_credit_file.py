"""Advantages in files: small, exact enough, and never trusted."""

import gzip
import json
from pathlib import Path

import pytest

from agentfly.errors import FormatError
from agentfly.observe.credit_file import find_credit, write_credit
from agentfly.types import ChainCredit, StreamCredit


def test_written_and_read(tmp_path: Path) -> None:
    first = StreamCredit(
        mask=(True, False, True, True),
        advantages=(0.5, 0.123456, 0.123456),
        entropies=(0.0, 1.23456, 0.5),
    )
    none = StreamCredit(mask=(False, False), advantages=())
    file = tmp_path / "advantages_1.jsonl.gz"
    write_credit(
        file,
        [
            ChainCredit(chain_id="t/0/1", streams=(none,)),
            ChainCredit(chain_id="t/0/10", streams=(first, none)),
        ],
    )
    found = find_credit(file, "t/0/10")
    assert found is not None
    assert found.streams[0].mask == first.mask
    assert found.streams[0].advantages == (0.5, 0.1235, 0.1235)
    assert found.streams[0].entropies == (0.0, 1.23, 0.5)
    assert found.streams[1] == none
    assert find_credit(file, "t/0/2") is None
    assert find_credit(tmp_path / "none.jsonl.gz", "t/0/1") is None


def test_a_chain_of_one_advantage_takes_a_short_line(tmp_path: Path) -> None:
    stream = StreamCredit(
        mask=(False,) * 900 + (True,) * 1100, advantages=(-0.7071,) * 1100, entropies=None
    )
    file = tmp_path / "advantages_1.jsonl.gz"
    write_credit(file, [ChainCredit(chain_id="t/0/0", streams=(stream,))])
    (line,) = gzip.decompress(file.read_bytes()).splitlines()
    assert json.loads(line)["streams"] == [{"mask": [900, 1100], "advantage": [[-0.7071, 1100]]}]


@pytest.mark.parametrize(
    "streams",
    [
        "nothing",
        [{"mask": [1, 1], "advantage": [[0.5, 2]]}],
        [{"mask": [1, 10**12], "advantage": []}],
        [{"mask": [-1], "advantage": []}],
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, streams: object) -> None:
    record = {"v": 1, "kind": "credit", "chain_id": "a", "streams": streams}
    file = tmp_path / "advantages_1.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode() + b"\n"))
    with pytest.raises(FormatError, match="is no record of credit"):
        find_credit(file, "a")
