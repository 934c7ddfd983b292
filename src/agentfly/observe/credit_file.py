"""Advantages and entropies of a step's tokens in a small file beside its chains.

trajectories/advantages_3.jsonl.gz
    {"v":1,"kind":"credit","chain_id":"t/0/1","streams":[
        {"mask":[40,12],"advantage":[[0.7071,12]],"entropy":[[0,3],[31,1],[2,8]]}]}

All numbers are run lengths: 40 tokens of context, then 12 trained ones, all with the advantage
0.7071. Entropies are in hundredths of a nat. An advantage that is not finite is null.
"""

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from agentfly.errors import FormatError
from agentfly.observe.whole_file import whole_file
from agentfly.runtime.journal import read_record, whole_lines
from agentfly.types import ChainCredit, StreamCredit

FORMAT_VERSION = 1
KIND = "credit"
HUNDREDTHS = 100
"""Precision of entropies."""


def write_credit(path: Path, chains: Iterable[ChainCredit]) -> None:
    """Write the credit of a step's chains, in one piece."""
    with whole_file(path) as raw, gzip.GzipFile("", "wb", 6, fileobj=raw, mtime=0) as file:
        for chain in chains:
            record = {"v": FORMAT_VERSION, "kind": KIND, "chain_id": chain.chain_id}
            streams = [_encoded(stream) for stream in chain.streams]
            line = json.dumps({**record, "streams": streams}, separators=(",", ":"))
            file.write(line.encode("ascii") + b"\n")


def _encoded(stream: StreamCredit) -> dict[str, Any]:
    flags = [(on, count) for on, count in _runs(stream.mask)]
    starts_trained = bool(flags) and flags[0][0]
    encoded = {
        "mask": [*([0] if starts_trained else []), *(count for _, count in flags)],
        "advantage": [[_short(value), count] for value, count in _runs(stream.advantages)],
    }
    if stream.entropies is not None:
        rounded = [round(HUNDREDTHS * entropy) for entropy in stream.entropies]
        encoded["entropy"] = [[value, count] for value, count in _runs(rounded)]
    return encoded


def _runs(values: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """Yield each value with the number of times it comes in a row."""
    for value, same in groupby(values):
        yield value, sum(1 for _ in same)


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def find_credit(path: Path, chain_id: str) -> ChainCredit | None:
    """Return the credit of one chain; None if the file has none, or is not there."""
    if not path.exists():
        return None
    mark = f'"chain_id":{json.dumps(chain_id)}'.encode()
    for number, line in whole_lines(path):
        if mark in line:
            where = f"{path}:{number}"
            record = read_record(line, where, kind=KIND, version=FORMAT_VERSION)
            if record.get("chain_id") == chain_id:
                return _decoded(record, where)
    return None


def _decoded(record: dict[str, Any], where: str) -> ChainCredit:
    try:
        streams = tuple(_stream(stream) for stream in record["streams"])
    except (LookupError, TypeError, ValueError) as error:
        raise FormatError(f"{where} is no record of credit: {error!r}") from error
    return ChainCredit(chain_id=record["chain_id"], streams=streams)


def _stream(encoded: dict[str, Any]) -> StreamCredit:
    mask = [
        index % 2 == 1 for index, count in enumerate(encoded["mask"]) for _ in range(_count(count))
    ]
    advantages = [math.nan if value is None else value for value in _spread(encoded["advantage"])]
    entropies = _spread(encoded["entropy"]) if "entropy" in encoded else None
    return StreamCredit(
        mask=tuple(mask),
        advantages=tuple(map(float, advantages)),
        entropies=None
        if entropies is None
        else tuple(float(value) / HUNDREDTHS for value in entropies),
    )


def _spread(runs: Sequence[tuple[Any, int]]) -> list[Any]:
    return [value for value, count in runs for _ in range(_count(count))]


MAX_RUN = 10_000_000
"""Longest run of tokens that is believed: a damaged file must not fill the memory."""


def _count(count: int) -> int:
    if not 0 <= count <= MAX_RUN:
        raise ValueError(f"a run of {count} tokens")
    return count
