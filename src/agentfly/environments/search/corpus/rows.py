"""Documents out of rows: JSON lines, Parquet, data sets of a hub.

A row has `text`, and if it likes `id` and `title`; or `contents` as the corpora of Search-R1
(arXiv:2503.09516) have it, whose first line is the title in quotes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentfly.environments.search.corpus.document import Document
from agentfly.environments.search.json_file import read_json_lines
from agentfly.errors import FormatError, boundary
from agentfly.runtime.extra import import_extra
from agentfly.tasks.hub import HubDataset

_FORM = 'a row looks like {"id": "7", "title": "Cats", "text": "Cats purr."}'


def parse_row(row: Mapping[str, Any], *, where: str, fallback_id: str) -> Document:
    r"""Read one row.

    >>> row = {"id": 7, "contents": '"Cats"\nCats purr.'}
    >>> parse_row(row, where="wiki.jsonl:1", fallback_id="wiki:1").title
    'Cats'
    """
    title, text = row.get("title"), row.get("text")
    if text is None and isinstance(row.get("contents"), str):
        title, text = split_contents(row["contents"])
    if not isinstance(text, str) or not isinstance(title, str | None):
        raise FormatError(f"{where}: {_FORM}, got the keys {', '.join(map(str, row)) or 'none'}")
    own_id = row.get("id")
    return Document(
        id=fallback_id if own_id is None else str(own_id), title=title or "", text=text, where=where
    )


def split_contents(contents: str) -> tuple[str, str]:
    r"""Split a title in quotes off its text.

    >>> split_contents('"Cats"\nCats purr.'), split_contents("Cats purr.")
    (('Cats', 'Cats purr.'), ('', 'Cats purr.'))
    """
    first, line_break, rest = contents.partition("\n")
    is_title = bool(line_break) and len(first) > 1 and first[0] == first[-1] == '"'
    return (first[1:-1], rest) if is_title else ("", contents)


def read_jsonl(path: Path) -> Iterator[Document]:
    """Read one document from each line."""
    for where, row in read_json_lines(path):
        line = where.rpartition(":")[2]
        yield parse_row(row, where=where, fallback_id=f"{path.name}:{line}")


def read_parquet(path: Path) -> Iterator[Document]:
    """Read one document from each row, a batch at a time."""
    parquet = import_extra("pyarrow.parquet", extra="parquet", purpose=f"reading {path}")
    number = 0
    with boundary(FormatError, f"reading {path} as Parquet"), parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                place = f"{path}, row {number}"
                yield parse_row(row, where=place, fallback_id=f"{path.name}:{number}")


def read_hub(name: str) -> Iterator[Document]:
    """Read a data set of a Hugging Face hub, named as `hub:organisation/name:split`."""
    dataset = HubDataset.named(name)
    for number, row in enumerate(dataset(), start=1):
        place = f"{name}, row {number}"
        yield parse_row(row, where=place, fallback_id=f"{dataset.dataset}:{number}")
