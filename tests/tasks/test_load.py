import json
import re
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from agentfly.errors import ConfigError, FormatError
from agentfly.tasks import load_tasks
from agentfly.types import Message, Task

ROWS = [
    {"id": "a", "question": "2+2?", "answer": "4"},
    {"id": "b", "question": "3+3?\nthink", "answer": "6"},
]
TASKS = [Task.from_row(row, source="sums") for row in ROWS]


def write(path: Path) -> None:
    if path.suffix == ".json":
        path.write_text(json.dumps(ROWS))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    elif path.suffix == ".csv":
        path.write_text('\ufeffid,question,answer\na,2+2?,4\nb,"3+3?\nthink",6\n', encoding="utf-8")
    else:
        write_parquet(path, ROWS)


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> None:
    parquet.write_table(pyarrow.Table.from_pylist(rows), path)


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "parquet"])
def test_every_kind_of_file_gives_the_same_tasks(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"sums.{kind}"
    write(path)
    assert load_tasks(path, source="sums") == TASKS
    assert load_tasks(str(path), source="sums") == TASKS


def test_rows_come_from_lists_iterators_and_functions() -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield from ROWS

    assert load_tasks(ROWS, source="sums") == TASKS
    assert load_tasks(iter(ROWS), source="sums") == TASKS
    assert load_tasks(rows, source="sums") == TASKS
    assert load_tasks([]) == []


def test_rows_may_hold_messages_or_neither() -> None:
    rows: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": "hi"}]}, {"level": 3}]
    [spoken, silent] = load_tasks(rows)
    assert spoken.messages == (Message(role="user", content="hi"),)
    assert silent.messages == ()
    assert silent.fields == {"level": 3}


def test_equal_rows_are_one_task_listed_twice() -> None:
    first, second, other = load_tasks([{"question": "x"}, {"question": "x"}, {"question": "y"}])
    assert first == second
    assert first.id != other.id


def test_ids_are_unique() -> None:
    rows: list[dict[str, Any]] = [{"id": 1}, {"id": 2}, {"id": "1", "question": "y"}]
    with pytest.raises(ConfigError, match="row 3: id '1' is taken by row 1: ids must be unique"):
        load_tasks(rows)
    with pytest.raises(ConfigError, match="row 2: id 7 is taken by row 1"):
        load_tasks([{"id": 7}, {"id": 7}])


def test_all_bad_rows_are_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('{"question": "x"}\n{"question": 3}\n\n[1]\n{"messages": "hi"}\n')
    with pytest.raises(ConfigError) as caught:
        load_tasks(path)
    said = str(caught.value).splitlines()
    assert said[0] == "3 bad rows:"
    assert said[1].startswith(f"  {path}:2: `question` must be a string, got int")
    assert said[2].startswith(f"  {path}:4: a row is a dict")
    assert said[3].startswith(f"  {path}:5: `messages` must be a list")


def test_a_long_list_of_bad_rows_is_cut() -> None:
    with pytest.raises(ConfigError) as caught:
        load_tasks([{"question": n} for n in range(12)])
    said = str(caught.value).splitlines()
    assert len(said) == 12
    assert said[0] == "12 bad rows:"
    assert said[-1] == "  and 2 more"


def test_keys_are_text() -> None:
    rows: Any = [{1: "x", "id": "a"}]
    with pytest.raises(ConfigError, match="row 1: a row is a dict"):
        load_tasks(rows)


@pytest.mark.parametrize(
    ("name", "contents", "problem"),
    [
        ("a.jsonl", b'{"question": "x"}\n{"question"\n', r"a\.jsonl:2 is not JSON"),
        ("a.json", b'[\n{"question": }\n]', r"a\.json:2 is not JSON"),
        (
            "a.jsonl",
            b'{"question": ' + b"9" * 5000 + b"}",
            r"a\.jsonl:1 can't be read: Exceeds the",
        ),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl:1 can't be read: .* nested too deeply"),
        ("a.json", b"[" * 100_000, r"a\.json can't be read: .* nested too deeply"),
        ("a.json", b'{"question": "x"}', "must hold a list of rows, got a dict"),
        ("a.csv", b"question,answer\nx,1\ny,2,3\n", r"a\.csv:3 does not have one cell for each"),
        ("a.csv", b"question,answer\nx\n", r"a\.csv:2 .* columns question, answer\. Put quotes"),
        ("a.csv", b'question\n"x" y\n', r"a\.csv:2 is not CSV"),
        ("a.jsonl", b'{"question": "\xff"}\n', r"a\.jsonl is not UTF-8"),
        ("a.parquet", b"no such thing", r"reading .*a\.parquet as Parquet raised"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, contents: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(contents)
    with pytest.raises(FormatError, match=problem):
        load_tasks(tmp_path / name)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"no file '{tmp_path / 'none.json'}'")):
        load_tasks(tmp_path / "none.json")
    path = tmp_path / "rows.jsnol"
    path.touch()
    with pytest.raises(ConfigError, match=r"kind of task file '\.jsnol'\. Did you mean '\.json"):
        load_tasks(path)


def test_parquet_without_pyarrow_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rows.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match=r"needs the package pyarrow: pip.*parquet"):
        load_tasks(tmp_path / "rows.parquet")


def test_a_function_that_fails_is_named() -> None:
    def puzzles() -> list[dict[str, str]]:
        raise KeyError("level")

    with pytest.raises(ConfigError, match="calling puzzles for tasks raised KeyError: 'level'"):
        load_tasks(puzzles)


def test_parquet_keeps_messages_lists_numbers_and_what_is_absent(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "hi"}], "golds": ["a", "ß"], "level": 3},
        {"messages": [{"role": "user", "content": "ho"}], "golds": [], "level": None},
    ]
    write_parquet(tmp_path / "rows.parquet", rows)
    first, second = load_tasks(tmp_path / "rows.parquet")
    assert first.messages == (Message(role="user", content="hi"),)
    assert first.fields["golds"] == ["a", "ß"]
    assert (first.fields["level"], second.fields["level"]) == (3, None)
    assert [first.id, second.id] == [task.id for task in load_tasks(rows)], "known by contents"


def test_parquet_values_beyond_json_need_an_id(tmp_path: Path) -> None:
    day = {"question": "which day?", "day": date(2026, 1, 2)}
    write_parquet(tmp_path / "rows.parquet", [day])
    with pytest.raises(ConfigError, match=r"rows\.parquet, row 1: a row's fields must be JSON"):
        load_tasks(tmp_path / "rows.parquet")
    write_parquet(tmp_path / "rows.parquet", [{"id": "a", **day}])
    assert load_tasks(tmp_path / "rows.parquet")[0].fields["day"] == date(2026, 1, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of settings, with files and a module next to them."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "load_rows", raising=False)
    write(tmp_path / "sums.jsonl")
    (tmp_path / "load_rows.py").write_text(
        f"def sums():\n    yield from {ROWS!r}\ndef broken():\n    raise KeyError('x')\nlimit = 3\n"
        "def number():\n    return 3\ndef leaving():\n    raise SystemExit\n"
    )
    return tmp_path


def test_a_text_names_a_file_or_a_function_from_the_base(folder: Path) -> None:
    assert load_tasks("sums.jsonl", source="sums", base=folder) == TASKS
    assert load_tasks("load_rows:sums", source="sums", base=folder) == TASKS
    assert load_tasks(str(folder / "sums.jsonl"), source="sums", base=Path("/elsewhere")) == TASKS


def test_a_file_whose_name_looks_like_an_import_is_read(folder: Path) -> None:
    (folder / "load_rows:sums").write_text("")
    with pytest.raises(ConfigError, match="unknown kind of task file ''"):
        load_tasks("load_rows:sums", base=folder)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("sum.jsonl", r"there is no file '.*/sum\.jsonl' to read tasks from"),
        ("load_row:sums", r"there is no module 'load_row' in .* Did you mean 'load_rows'\?"),
        ("load_rows:sum", r"load_rows has no function 'sum'\. Did you mean 'sums'\? Known: brok"),
        ("load_rows:limit", r"load_rows:limit is no function that returns rows, but 3"),
        ("load_rows:broken", r"calling broken for tasks raised KeyError: 'x'"),
        ("load_rows:leaving", r"calling leaving for tasks ended the program: it must return rows"),
        ("load_rows:number", r"calling number for tasks raised TypeError: 'int' object is not"),
    ],
)
def test_unknown_names_are_reported(folder: Path, name: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_tasks(name, base=folder)
