"""A corpus: read from many kinds of files, cut, kept on disk, opened by many processes."""

import bz2
import gzip
import json
import multiprocessing
import pickle
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.patience import PATIENCE

from agentfly.environments.search import Chunking, Corpus, Passage
from agentfly.environments.search.corpus import (
    Document,
    read_documents,
    split_document,
    write_corpus,
)
from agentfly.environments.search.corpus.wikipedia import plain_wikitext
from agentfly.errors import ConfigError, FormatError

DUMP = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/">
  <siteinfo><sitename>Test</sitename></siteinfo>
  <page><title>Cat</title><ns>0</ns><id>1</id><revision><id>9</id>
    <text>{{Infobox|name={{PAGENAME}}}}The '''cat''' is a [[Mammal|small mammal]].&lt;ref&gt;x&lt;/ref&gt;
== Sleep ==
* It sleeps [https://x.org a lot].
{| class="wikitable"
| cell
|}
[[File:Cat.jpg|thumb|A [[cat]]]]Done.</text></revision></page>
  <page><title>Kitty</title><ns>0</ns><redirect title="Cat"/><revision><text>#REDIRECT</text></revision></page>
  <page><title>Talk:Cat</title><ns>1</ns><revision><text>Talk.</text></revision></page>
  <page><title>Dog</title><ns>0</ns><revision><text>Dogs bark.</text></revision></page>
</mediawiki>"""  # noqa: E501


def lines(*rows: object) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def read(path: Path) -> list[Document]:
    return list(read_documents([path]))


def test_json_lines_take_text_or_contents_and_number_what_has_no_id(tmp_path: Path) -> None:
    path = tmp_path / "wiki.jsonl"
    path.write_text(
        lines({"id": 7, "title": "Cats", "text": "Purr."})
        + "\n"
        + lines({"contents": '"Dogs"\nBark.'})
    )
    assert [(d.id, d.title, d.text) for d in read(path)] == [
        ("7", "Cats", "Purr."),
        ("wiki.jsonl:3", "Dogs", "Bark."),
    ]


def test_files_that_are_a_document_each(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.txt").write_text("Plain words.")
    (tmp_path / "sub" / "a.txt").write_text("Other words.")
    (tmp_path / "b.md").write_text("# The *Title*\n\nSee [this](x.md).\n\n- one\n")
    (tmp_path / "c.html").write_text(
        "<html><head><title>Page</title><script>no()</script></head><nav>Menu</nav>"
        "<main><h1>Head</h1><p>Body &amp; soul.</main><footer>Foot</footer>"
    )
    (tmp_path / "ignored.bin").write_text("no")
    assert [(d.id, d.title, d.text) for d in read(tmp_path)] == [
        ("a.txt", "a", "Plain words."),
        ("b.md", "The Title", "The Title\n\nSee this.\n\none"),
        ("c.html", "Page", "Head\nBody & soul."),
        ("sub/a.txt", "a", "Other words."),
    ]


def test_parquet_is_read_row_by_row(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = arrow.table({"id": ["x", "y"], "text": ["One.", "Two."]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert [(d.id, d.text) for d in read(tmp_path / "t.parquet")] == [("x", "One."), ("y", "Two.")]
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(FormatError, match=r"bad\.parquet as Parquet"):
        read(tmp_path / "bad.parquet")


def test_a_data_set_of_a_hub_is_read_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text(lines({"title": "Cats", "text": "Purr."}))
    (document,) = read_documents([f"hub:{folder}:train"])
    assert (document.id, document.title) == (f"{folder}:1", "Cats")


@pytest.mark.parametrize("name", ["wiki.xml", "wiki.xml.bz2", "wiki.xml.gz"])
def test_a_dump_gives_its_articles_without_redirects_and_markup(tmp_path: Path, name: str) -> None:
    data = DUMP.encode()
    packed = {".bz2": bz2.compress(data), ".gz": gzip.compress(data), ".xml": data}
    (tmp_path / name).write_bytes(packed[Path(name).suffix])
    cat, dog = read(tmp_path / name)
    assert (cat.title, dog.text) == ("Cat", "Dogs bark.")
    assert cat.text == "The cat is a small mammal.\nSleep\nIt sleeps a lot.\nDone."


def test_a_dump_is_read_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "cut.xml"
    path.write_text(DUMP[: DUMP.index("<page><title>Dog")])
    documents = read_documents([path])
    assert next(documents).title == "Cat"  # though the file breaks off later
    with pytest.raises(FormatError, match=r"cut\.xml:\d+ is not a dump's XML"):
        next(documents)


def test_a_pile_of_open_braces_in_wikitext_ends_soon() -> None:
    assert plain_wikitext("{{" * 20_000 + "x").endswith("x")


def _flipped(packed: bytes) -> bytes:
    """Damage the deflated part, whose first bits say of which kind it is."""
    return packed[:10] + b"\xff" + packed[11:]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', r"a\.jsonl:2 is not JSON"),
        ("a.jsonl", b'{"text": "x"}\n[1]\n', r"a\.jsonl:2 should hold an object"),
        ("a.jsonl", b'{"text": "x"}\n{"body": "y"}\n', r"a\.jsonl:2: a row looks like"),
        ("a.jsonl", b'{"text": 5}\n', r"a\.jsonl:1: a row looks like"),
        ("a.txt", b"\xff\xfe\xfa", r"a\.txt:1 is not UTF-8"),
        (
            "a.jsonl",
            b'{"text": "x"}\n' * 5000 + b'{"text": "\xff"}\n',
            r"a\.jsonl:5001 is not UTF-8",
        ),
        ("a.jsonl", b'{"text": "x"}\n' + b"[" * 100_000, r"a\.jsonl:2 .*nested too deeply"),
        (
            "a.jsonl",
            b'{"text": "x", "n": ' + b"1" * 5000 + b"}",
            r"a\.jsonl:1 can't be read: .*digits",
        ),
        (
            "a.jsonl.gz",
            _flipped(gzip.compress(b'{"text": "x"}\n', mtime=0)),
            r"a\.jsonl\.gz can't be read",
        ),
        ("a.jsonl.gz", b"not gzip", r"a\.jsonl\.gz can't be read"),
        ("a.xml.bz2", b"not bz2", r"a\.xml\.bz2 can't be read"),
        ("a.jsonl.gz", gzip.compress(b'{"text": "x"}\n' * 999, mtime=0)[:40], r"can't be read"),
    ],
)
def test_a_broken_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message):
        Corpus.create(tmp_path / "corpus", [tmp_path / name])
    assert not (tmp_path / "corpus").exists()
    assert not list(tmp_path.glob(".corpus.half-*"))


def test_what_is_no_document_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no file or folder '.*/notes'"):
        list(read_documents([tmp_path / "notes"]))
    (tmp_path / "a.exe").touch()
    with pytest.raises(ConfigError, match=r"unknown kind of document '\.exe'"):
        list(read_documents([tmp_path / "a.exe"]))
    with pytest.raises(ConfigError, match="there is no file"):
        list(read_documents([tmp_path / "a.txt"]))
    with pytest.raises(ConfigError, match="holds no documents"):
        list(read_documents([tmp_path]))
    (tmp_path / "empty.txt").write_text("  \n")
    with pytest.raises(ConfigError, match="no document has any text"):
        Corpus.create(tmp_path / "corpus", [tmp_path / "empty.txt"])


def test_every_word_is_in_a_passage_and_the_overlap_in_two() -> None:
    document = Document(id="d", title="D", text=" ".join(map(str, range(95))))
    parts = [p.text.split() for p in split_document(document, Chunking(words=20, overlap=5))]
    assert all(5 < len(part) <= 20 for part in parts)
    assert all(a[-5:] == b[:5] for a, b in pairwise(parts))
    assert [w for n, part in enumerate(parts) for w in part[5 if n else 0 :]] == [
        str(n) for n in range(95)
    ]
    with pytest.raises(ValidationError, match="overlap=5 must be less than words=5"):
        Chunking(words=5, overlap=5)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    path = tmp_path / "docs.jsonl"
    long = " ".join(f"word{n}" for n in range(250))
    path.write_text(
        lines(
            {"id": "ü/1", "title": "Ünï", "text": "Grüße."},
            {"id": "long", "title": "Long", "text": long},
            {"id": "empty", "text": " "},
        )
    )
    return Corpus.create(tmp_path / "corpus", [path])


def test_a_corpus_gives_back_what_was_put_in(corpus: Corpus) -> None:
    assert [p.id for p in corpus] == ["ü/1", "long#0", "long#1", "long#2"]
    assert corpus[0] == Passage(id="ü/1", title="Ünï", text="Grüße.")
    assert corpus[-1] == corpus[3] == corpus[2:][-1]
    assert corpus.find("ü/1") == corpus[0]
    assert corpus.find("long#2") == corpus[3]
    whole = corpus.find("long")
    assert whole is not None
    assert len(whole.text.split()) == 250
    assert corpus.find("nobody") is None
    with pytest.raises(IndexError, match="4 passages, asked for 4"):
        corpus[4]


def test_a_document_is_put_together_without_what_its_passages_repeat(tmp_path: Path) -> None:
    text = " ".join(f"word{n}" for n in range(95))
    (tmp_path / "d.txt").write_text(text)
    chunking = Chunking(words=20, overlap=5)
    made = Corpus.create(tmp_path / "corpus", [tmp_path / "d.txt"], chunking=chunking)
    whole = made.find("d.txt")
    assert whole is not None
    assert whole.text == text
    # Passages that were only named so repeat nothing.
    apart = [Passage(id=f"e#{n}", title="", text=f"a b {n} c d e f") for n in range(2)]
    write_corpus(tmp_path / "apart", apart, overlap=5)
    whole = Corpus(tmp_path / "apart").find("e")
    assert whole is not None
    assert whole.text == "a b 0 c d e f a b 1 c d e f"


MARKDOWN = """# The __init__ of *cats*, 2*3*4

Call `read_file(a_b)` or read_file(a_b) as **`f(*args)`** with *args, **kwargs and _private.
***All*** of **it *is* bold**, _so_ `a` - b * c. See [the __docs__](x_y.md).

- 2*3*4 > 5

```python
def __init__(self, *a):
    # a comment, `ticks` and *stars*
```
"""


def test_marks_are_taken_out_only_where_they_are_marks(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(MARKDOWN)
    (document,) = read(tmp_path / "a.md")
    assert document.title == "The __init__ of cats, 2*3*4"
    assert document.text == (
        "The __init__ of cats, 2*3*4\n\n"
        "Call read_file(a_b) or read_file(a_b) as f(*args) with *args, **kwargs and _private.\n"
        "All of it is bold, so a - b * c. See the __docs__.\n\n"
        "2*3*4 > 5\n\n"
        "def __init__(self, *a):\n    # a comment, `ticks` and *stars*"
    )


@pytest.mark.parametrize("piece", ["*a ", "`", "`a", "[a](", "_a", " ", "```\n", "\ue0000\ue001"])
def test_any_heap_of_marks_is_read_soon(tmp_path: Path, piece: str) -> None:
    (tmp_path / "a.md").write_text("x" + piece * 50_000)
    assert len(read(tmp_path / "a.md")) == 1  # in the time of one test


def _first_text(corpus: Corpus) -> str:
    return corpus[0].text


def test_other_processes_open_it_by_its_folder(corpus: Corpus) -> None:
    assert len(pickle.dumps(corpus)) < 500  # the folder's name, not the texts
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(_first_text, [corpus] * 4) == ["Grüße."] * 4


def test_ids_must_be_unique(tmp_path: Path) -> None:
    twice = [Passage(id=x, title="", text="t") for x in ("a", "b", "a")]
    with pytest.raises(FormatError, match="passages 1 and 3 have the same id, 'a'"):
        write_corpus(tmp_path / "corpus", twice)
    with pytest.raises(FormatError, match="empty id"):
        write_corpus(tmp_path / "corpus", [Passage(id="", title="", text="t")])
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_is_never_overwritten_and_damage_is_noticed(corpus: Corpus) -> None:
    with pytest.raises(ConfigError, match="exists already"):
        write_corpus(corpus.folder, [Passage(id="a", title="", text="t")])
    texts = corpus.folder / "texts.bin"
    texts.write_bytes(texts.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"texts\.bin is damaged"):
        Corpus(corpus.folder)
    (corpus.folder / "bounds.i64").write_bytes(b"")
    with pytest.raises(FormatError, match=r"bounds\.i64 is damaged"):
        Corpus(corpus.folder)
    (corpus.folder / "manifest.json").write_text("{")
    with pytest.raises(FormatError, match="make the corpus again"):
        Corpus(corpus.folder)
    with pytest.raises(ConfigError, match="holds no corpus: make one with `agentfly search index"):
        Corpus(corpus.folder / "nothing")


KILLED = """
import os, sys
from pathlib import Path
from agentfly.environments.search import Passage
from agentfly.environments.search.corpus import write_corpus
def passages():
    for n in range(5000):
        yield Passage(id=str(n), title="", text="t")
    os.kill(os.getpid(), 9)
write_corpus(Path(sys.argv[1]), passages())
"""


def test_a_killed_process_leaves_no_half_corpus(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "corpus")], check=False, timeout=PATIENCE
    )
    assert killed.returncode == -9
    assert not (tmp_path / "corpus").exists()
    write_corpus(tmp_path / "corpus", [Passage(id="a", title="", text="t")])
    assert len(Corpus(tmp_path / "corpus")) == 1


def test_an_id_of_half_a_character_is_kept(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus", [Passage(id="a\ud83d", title="", text="\udc00x")])
    assert Corpus(tmp_path / "corpus")[0] == Passage(id="a?", title="", text="?x")
