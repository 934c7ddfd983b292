"""Code blocks of the pages that are copies of files, so that they can be read on GitHub.

A comment, which no reader sees, names the file before the block:

    <!-- docs_src/tools.py -->
    ```python
    ...
    ```

A block after `<!-- output of docs_src/tools.py -->` is what the program prints.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LANGUAGES = {".py": "python", ".toml": "toml", ".jsonl": "json"}

_BLOCK = re.compile(
    r"^<!-- (?P<output>output of )?(?P<file>[\w/.-]+\.\w+) -->\n"
    r"(?P<fence>`{3,})[^\n]*\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A code block that copies a file, or the output of one."""

    file: str
    """Path below the root of the project."""
    output: bool
    text: str


def pages() -> list[Path]:
    """Return the README and all pages of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: str) -> Iterator[Block]:
    """Yield the marked blocks of a page."""
    for found in _BLOCK.finditer(page):
        yield Block(file=found["file"], output=bool(found["output"]), text=found["text"])


def with_current_files(page: str) -> str:
    """Return the page with each copy of a file as the file is now."""

    def text_of(block: Block) -> str:
        return block.text if block.output else (ROOT / block.file).read_text()

    return _rewritten(page, text_of)


def with_output(page: str, file: str, output: str) -> str:
    """Return the page with the output of one program replaced."""

    def text_of(block: Block) -> str:
        return output if block.output and block.file == file else block.text

    return _rewritten(page, text_of)


def shown_outputs(file: str) -> list[str]:
    """Return what the pages show as the output of a program."""
    every = (block for page in pages() for block in blocks(page.read_text()))
    return [block.text for block in every if block.output and block.file == file]


def _rewritten(page: str, text_of: Callable[[Block], str]) -> str:
    def rewrite(found: re.Match[str]) -> str:
        block = Block(file=found["file"], output=bool(found["output"]), text=found["text"])
        mark = found[0].partition("\n")[0]
        language = "text" if block.output else LANGUAGES.get(Path(block.file).suffix, "text")
        text = text_of(block)
        fence = "````" if "```" in text else "```"
        return f"{mark}\n{fence}{language}\n{text}{fence}"

    return _BLOCK.sub(rewrite, page)
