"""Every code block of the documentation is a file, and every file runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SNIPPETS = sorted((ROOT / "docs_src").rglob("*.py"))


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: path.stem)
def test_the_snippet_runs(path: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "error", str(path)], check=True, timeout=PATIENCE, cwd=ROOT
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_shows_python_only_from_files_that_run(page: Path) -> None:
    for block in re.findall(r"```(?:python|py)[^\n]*\n(.*?)```", page.read_text(), re.DOTALL):
        included = re.fullmatch(r'--8<-- "(docs_src/[\w/]+\.py|examples/\w+\.py)"\n', block)
        assert included, f"{page.name} shows Python that no test runs:\n{block}"
        assert (ROOT / included.group(1)).exists()


def test_every_snippet_is_shown_somewhere() -> None:
    shown = "".join(page.read_text() for page in PAGES)
    unused = [str(p.relative_to(ROOT)) for p in SNIPPETS if str(p.relative_to(ROOT)) not in shown]
    assert not unused


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
