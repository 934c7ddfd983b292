"""Rewrite what the documentation copies from the code: `python -m docs_build`, or `make docs-sync`.

With `--outputs`, the programs whose output is shown are run, too; some of them train a model.
"""

import subprocess
import sys
from pathlib import Path

from docs_build.code_blocks import ROOT, blocks, pages, with_current_files, with_output
from docs_build.generated import generated_pages


def main() -> None:
    """Rewrite the pages, and print the names of those that changed."""
    for name, text in generated_pages().items():
        _write(ROOT / "docs" / name, text)
    for page in pages():
        _write(page, with_current_files(page.read_text()))
    if "--outputs" in sys.argv[1:]:
        for page in pages():
            for block in list(blocks(page.read_text())):
                if block.output:
                    _write(page, with_output(page.read_text(), block.file, _run(block.file)))


def _run(file: str) -> str:
    command = [sys.executable, str(ROOT / file)]
    return subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout


def _write(page: Path, text: str) -> None:
    if not page.exists() or page.read_text() != text:
        page.write_text(text)
        print(f"rewritten: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
