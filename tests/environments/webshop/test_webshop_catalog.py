import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agentfly.environments.webshop.catalog import Catalog, load_catalog
from agentfly.environments.webshop.catalog import json_array as arrays
from agentfly.environments.webshop.catalog.json_array import read_array
from agentfly.environments.webshop.catalog.product_record import read_product
from agentfly.errors import ConfigError, FormatError

MUG = {
    "asin": "B000000001",
    "name": "Red Mug",
    "full_description": "It holds tea.",
    "pricing": "$19.99$27.99",
    "product_category": "Home › Kitchen › Mugs",
    "small_description": ["Dishwasher safe", "Made of clay"],
    "customization_options": {
        "Size": [{"value": " Small/Medium "}, {"value": "LARGE", "asin": "B1"}],
        "Color": None,
    },
    "category": "garden",
    "query": " Coffee Mugs",
    "images": [],
}
WRITTEN = {
    "B000000001": {
        "attributes": ["dishwasher safe"],
        "instruction": "Find me dishwasher safe mugs",
        "instruction_attributes": ["dishwasher safe"],
    }
}


def write(folder: Path, *products: Any, suffix: str = "_1000", written: Any = WRITTEN) -> Path:
    (folder / f"items_shuffle{suffix}.json").write_text(json.dumps(products, indent=1))
    (folder / f"items_ins_v2{suffix}.json").write_text(json.dumps(written))
    return folder


def test_a_record_of_the_official_files_becomes_a_product(tmp_path: Path) -> None:
    (mug,) = load_catalog(write(tmp_path, MUG)).products
    assert mug.title == "Red Mug"
    assert mug.features == ("Dishwasher safe", "Made of clay")
    assert mug.price_tag == "$19.99 to $27.99"
    assert 19.99 <= mug.price <= 27.99
    assert mug.options == (("size", ("small | medium", "large")),)
    assert mug.attributes == ("dishwasher safe",)
    assert mug.query == "coffee mugs"
    assert mug.categories == {"Home", "Kitchen", "Mugs"}
    assert mug.indexed_text == ("red mug it holds tea. dishwasher safe size: small | medium, large")


def test_a_drawn_price_is_the_same_every_time() -> None:
    first, second = read_product(MUG), read_product(MUG)
    assert first is not None
    assert second is not None
    assert first.price == second.price
    other = read_product({**MUG, "asin": "B000000002"})
    assert other is not None
    assert other.price != first.price


def test_records_that_the_shop_never_lists_are_skipped(tmp_path: Path) -> None:
    records = [
        MUG,
        {**MUG, "asin": "nan"},
        {**MUG, "asin": "B0000000012"},
        {**MUG, "name": "The same asin again"},
        {**MUG, "asin": "B000000002"},
    ]
    catalog = load_catalog(write(tmp_path, *records))
    assert [(p.asin, p.title) for p in catalog.products] == [
        ("B000000001", "Red Mug"),
        ("B000000002", "Red Mug"),
    ]


@pytest.mark.parametrize(
    ("pricing", "tag", "price"),
    [
        ("$5", "$5.0", 5.0),
        ("$1,299.50", "$1299.5", 1299.5),
        ("", "$100.0", 100.0),
        (None, "$100.0", 100.0),
        ("unavailable", "$100.0", 100.0),
        ([7.5], "$7.5", 7.5),
    ],
)
def test_prices(pricing: Any, tag: str, price: float) -> None:
    product = read_product({**MUG, "pricing": pricing})
    assert product is not None
    assert (product.price_tag, product.price) == (tag, price)


@pytest.mark.parametrize(
    ("key", "value"),
    [("customization_options", ""), ("customization_options", None), ("small_description", "")],
)
def test_what_a_record_may_leave_empty(key: str, value: Any) -> None:
    assert read_product({**MUG, key: value}) is not None


def test_requests_are_of_the_listed_products_only(tmp_path: Path) -> None:
    written = {**WRITTEN, "B0NOTHERE0": WRITTEN["B000000001"]}
    human = {
        "B000000001": [
            {
                "instruction": "i need a big mug.",
                "instruction_attributes": ["dishwasher safe"],
                "instruction_options": ["large"],
                "worker_id": "x",
            },
            {"instruction": "no attributes", "instruction_attributes": []},
        ],
    }
    write(tmp_path, MUG, {**MUG, "asin": "B000000002"}, written=written)
    (tmp_path / "items_human_ins.json").write_text(json.dumps(human))
    catalog = load_catalog(tmp_path)
    assert list(catalog.requests) == ["B000000001"]
    (request,) = catalog.human_requests["B000000001"]
    assert (request.instruction, request.options) == ("i need a big mug", ("large",))


def test_the_small_files_are_taken_unless_the_full_ones_are_asked_for(tmp_path: Path) -> None:
    write(tmp_path, MUG)
    write(tmp_path, MUG, {**MUG, "asin": "B000000002"}, {**MUG, "asin": "B000000003"}, suffix="")
    assert len(load_catalog(tmp_path).products) == 1
    assert len(load_catalog(tmp_path, full=True).products) == 3
    assert len(load_catalog(tmp_path, full=True, limit=2).products) == 2


def test_the_search_engines_documents_hold_products_too(tmp_path: Path) -> None:
    (tmp_path / "items_ins_v2.json").write_text(json.dumps(WRITTEN))
    with gzip.open(tmp_path / "documents.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": MUG["asin"], "contents": "", "product": MUG}) + "\n")
    assert load_catalog(tmp_path).products[0].title == "Red Mug"


def broken(folder: Path, name: str, text: str) -> str:
    write(folder, MUG)
    (folder / name).write_text(text)
    with pytest.raises(FormatError) as raised:
        load_catalog(folder)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[{"asin": "B1", "name": "a"},\n\n{"asin": "B2" "name": "b"}]', 3),
        ('[{"asin": "B1", "name": "a"},\n{"asin": "B2"}]', 2),
        ('[{"asin": "B1", "name": "a"}\n\n\n', 4),
        ('[{"asin": "B1", "name": "a"}\n;]', 2),
        ('\n{"asin": "B1"}', 2),
        ('[{"asin": "B1", "name": "a"},\n 7]', 2),
        ('[{"asin": "B1", "name": "a",\n "pricing": "$1.2.3"}]', 1),
    ],
)
def test_a_broken_file_of_products_names_the_line(tmp_path: Path, text: str, line: int) -> None:
    message = broken(tmp_path, "items_shuffle_1000.json", text)
    assert f"items_shuffle_1000.json:{line}" in message


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    message = broken(tmp_path, "items_shuffle_1000.json", '[{"asin": "B1"}]')
    assert "name: Field required" in message


def test_a_broken_table_names_the_line_or_the_key(tmp_path: Path) -> None:
    assert "items_ins_v2_1000.json:2" in broken(tmp_path, "items_ins_v2_1000.json", '{"a":\n!}')
    wrong = broken(tmp_path, "items_ins_v2_1000.json", '{"B1": {"attributes": "many"}}')
    assert "B1.attributes" in wrong


def test_an_empty_catalog_is_refused(tmp_path: Path) -> None:
    assert "holds no product" in broken(tmp_path, "items_shuffle_1000.json", "[]")


GOOD_LINE = json.dumps({"product": MUG}).encode() + b"\n"
NOT_UTF_8 = "is not UTF-8 text"
TOO_DEEP = "is not JSON that can be read"
TOO_LONG = "4300 digits"


@pytest.mark.parametrize(
    ("name", "content", "line", "problem"),
    [
        ("items_shuffle_1000.json", b"[\n\n \xff\xfe]", 3, NOT_UTF_8),
        ("items_shuffle_1000.json", b"[\n" + b"[" * 100_000, 2, TOO_DEEP),
        ("items_shuffle_1000.json", b"[\n" + b"7" * 5000 + b"]", 2, TOO_LONG),
        ("items_ins_v2_1000.json", b'{"a":\n"\xff"}', 2, NOT_UTF_8),
        ("items_ins_v2_1000.json", b"[" * 100_000, 1, TOO_DEEP),
        ("items_ins_v2_1000.json", b'{"a":\n' + b"7" * 5000 + b"}", 2, TOO_LONG),
        ("documents.jsonl", GOOD_LINE + b'{"product": "\xff"}', 2, NOT_UTF_8),
        ("documents.jsonl", GOOD_LINE + b"[" * 100_000, 2, TOO_DEEP),
        ("documents.jsonl", GOOD_LINE + b"7" * 5000, 2, TOO_LONG),
        ("documents.jsonl.gz", b"no archive", 1, "Not a gzipped file"),
        ("documents.jsonl.gz", gzip.compress(GOOD_LINE, mtime=0)[:-8], 2, "ended before"),
        (
            "documents.jsonl.gz",
            gzip.compress(b"", mtime=0)[:10] + b"\xff" * 40,
            1,
            "invalid block type",
        ),
        (
            "documents.jsonl.gz",
            gzip.compress(GOOD_LINE, mtime=0) + b"more",
            2,
            "Not a gzipped file",
        ),
    ],
)
def test_whatever_is_broken_the_file_and_the_line_are_named(
    tmp_path: Path, name: str, content: bytes, line: int, problem: str
) -> None:
    write(tmp_path, MUG)
    if name.startswith("documents"):
        (tmp_path / "items_shuffle_1000.json").unlink()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=rf"{name}:{line} .*{problem}"):
        load_catalog(tmp_path)


def test_a_byte_that_is_no_text_is_found_in_any_chunk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "array.json"
    path.write_bytes(b'[\n"\xc3\xa9",\n"' + b"x\xf0" + b'"]')
    for chunk in (1, 2, 7, 64):
        monkeypatch.setattr(arrays, "_CHUNK", chunk)
        with pytest.raises(FormatError, match=r"array\.json:3 is not UTF-8"):
            list(read_array(path))


def test_a_folder_without_the_files_says_what_was_expected(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match=r"items_ins_v2\*\.json; it has notes\.txt"):
        load_catalog(tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        load_catalog(tmp_path / "nowhere")


def test_an_array_is_read_whatever_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elements = [{"n": number, "text": "x\n" * number} for number in range(30)]
    path = tmp_path / "array.json"
    path.write_text(json.dumps(elements, indent=2))
    lines = path.read_text().splitlines()
    for chunk in (1, 2, 7, 64, 10_000):
        monkeypatch.setattr(arrays, "_CHUNK", chunk)
        read = list(read_array(path))
        assert [element for _, element in read] == elements
        assert all(lines[line - 1].strip() == "{" for line, _ in read)


def test_an_element_without_an_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_LONGEST", 1000)
    monkeypatch.setattr(arrays, "_CHUNK", 100)
    path = tmp_path / "array.json"
    path.write_text('[\n{"a": "' + "x" * 100_000)
    with pytest.raises(FormatError, match=r"array\.json:2"):
        list(read_array(path))


def test_the_official_thousand(official: Catalog) -> None:
    assert len(official.products) == 1000
    assert len(official.requests) == 415


def test_the_official_texts_are_indexed_as_published(
    official: Catalog, official_folder: Path
) -> None:
    published = {}
    with gzip.open(official_folder / "documents_1k.jsonl.gz", "rt") as file:
        for line in file:
            document = json.loads(line)
            published[document["id"]] = document["contents"]
    assert {p.asin: p.indexed_text for p in official.products} == published
