"""The official files: `items_shuffle*.json`, `items_ins_v2*.json`, `items_human_ins.json`."""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agentfly.environments.webshop.catalog.json_array import read_array
from agentfly.environments.webshop.catalog.json_text import read_json
from agentfly.environments.webshop.catalog.product import Catalog, Product, Request
from agentfly.environments.webshop.catalog.product_record import read_product
from agentfly.errors import ConfigError, FormatError

SMALL = "1000"
"""Part of the names of the files that hold only the first 1,000 products."""
PRODUCTS = ("items_shuffle*.json", "documents*.jsonl", "documents*.jsonl.gz")
"""Patterns of the raw products, or of the search engine's documents that hold them."""
ATTRIBUTES = ("items_ins_v2*.json",)
HUMAN = ("items_human_ins.json",)


class _Written(BaseModel):
    model_config = ConfigDict(extra="ignore")

    attributes: tuple[str, ...] = ()
    instruction: str | None = None
    instruction_attributes: tuple[str, ...] | None = None


class _Human(BaseModel):
    model_config = ConfigDict(extra="ignore")

    instruction: str
    instruction_attributes: tuple[str, ...] = ()
    instruction_options: tuple[str, ...] | dict[str, str] = ()


def load_catalog(folder: Path, *, full: bool = False, limit: int | None = None) -> Catalog:
    """Read the catalog of a folder.

    Args:
        folder: Where the files are, under the names they are published with.
        full: Take the files of all products where the folder also has those of the first 1,000.
        limit: Maximum number of products; the first ones are taken.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"there is no folder {str(folder)!r} to read WebShop's files from: point `data` at the "
            "folder with items_shuffle*.json and items_ins_v2*.json, or leave it out"
        )
    written = _read_table(_find(folder, ATTRIBUTES, full=full), _Written)
    products = _products(_find(folder, PRODUCTS, full=full), written, limit)
    human_file = next(folder.glob(HUMAN[0]), None)
    human = _read_table(human_file, list[_Human]) if human_file else {}
    return Catalog(
        products=products,
        requests={p.asin: r for p in products if (r := _request(written.get(p.asin))) is not None},
        human_requests={
            p.asin: _human_requests(human[p.asin]) for p in products if p.asin in human
        },
    )


def _find(folder: Path, patterns: tuple[str, ...], *, full: bool) -> Path:
    """Return the small or the full file of one kind."""
    found = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    if not found:
        names = ", ".join(sorted(path.name for path in folder.iterdir())) or "nothing"
        raise ConfigError(
            f"{str(folder)!r} has no file {' or '.join(patterns)}; it has {names}. The files are "
            "those that WebShop's own set-up script fetches"
        )
    return min(found, key=lambda path: (SMALL in path.name) == full)


def _products(
    path: Path, written: Mapping[str, _Written], limit: int | None
) -> tuple[Product, ...]:
    products: dict[str, Product] = {}
    for line, raw in islice(_records(path), limit):
        where = f"{path}:{line}"
        if not isinstance(raw, dict):
            raise FormatError(f"{where}: expected a product, got {raw!r:.80}")
        known = written.get(str(raw.get("asin")))
        product = read_product(raw, known.attributes if known else (), where=where)
        if product is not None:
            products.setdefault(product.asin, product)
    if not products:
        raise FormatError(f"{path} holds no product")
    return tuple(products.values())


def _records(path: Path) -> Iterator[tuple[int, Any]]:
    return read_array(path) if path.suffix == ".json" else _documents(path)


def _documents(path: Path) -> Iterator[tuple[int, Any]]:
    for line, raw in _lines(path):
        document = read_json(raw, path, line)
        if not isinstance(document, dict) or "product" not in document:
            raise FormatError(f"{path}:{line} has no product")
        yield line, document["product"]


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    line = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for line, raw in enumerate(file, start=1):
                yield line, raw
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FormatError(f"{path}:{line + 1} can't be unpacked: {error}") from error


def _read_table(path: Path, row: Any) -> dict[str, Any]:
    """Read a table by asin and validate each row."""
    table = read_json(path.read_bytes(), path)
    try:
        rows: dict[str, Any] = TypeAdapter(dict[str, row]).validate_python(table)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the table"
        raise FormatError(f"{path}: {place}: {first['msg']}") from None
    return rows


def _request(written: _Written | None) -> Request | None:
    if written is None or written.instruction is None or not written.instruction_attributes:
        return None
    return Request(instruction=written.instruction, attributes=written.instruction_attributes)


def _human_requests(rows: list[_Human]) -> tuple[Request, ...]:
    return tuple(
        Request(
            instruction=row.instruction.strip("."),
            attributes=row.instruction_attributes,
            options=_values(row.instruction_options),
        )
        for row in rows
        if row.instruction_attributes
    )


def _values(options: tuple[str, ...] | dict[str, str]) -> tuple[str, ...]:
    return tuple(options.values()) if isinstance(options, dict) else options
