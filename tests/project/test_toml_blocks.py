"""Every TOML of the pages is one that a dry run accepts, and a whole run says whether it learns."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from docs_build.code_blocks import ROOT, blocks, pages

from agentfly.agents import resolve_run
from agentfly.config import SettingsError, load_settings
from agentfly.config.settings_file import merged, read_toml
from agentfly.config.sft_settings import SftSettings

PAGES = [page for page in pages() if page.name not in ("settings.md", "plugins.md")]
"""Settings has defaults alone, and is generated; plugins shows files of a package."""
RUN = {
    "name": "run",
    "model": {"name": "tiny"},
    "source": [
        {
            "tasks": str(ROOT / "examples" / "sums.jsonl"),
            "tools": ["calculator"],
            "reward": "numeric_match",
        }
    ],
}
"""What a table of a page is put into."""
NEEDS = ("engine.python", "cluster")
"""What a machine has or has not: a vLLM, a cluster."""
MISSING = re.compile(r"cart\.jsonl|programs\.jsonl|questions\.jsonl|it needs Chromium")
"""Files of the reader's own, which a page names with a line of it, and a browser."""


def toml_blocks(page: Path) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def whole(block: str) -> bool:
    """Return whether a block is a run by reward, and not one table or a warm start's settings."""
    return "[[source]]" in block and "model" in block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_run_is_a_copy_of_a_file_and_a_table_can_be_resolved(page: Path) -> None:
    copied = {block.text for block in blocks(page.read_text())}
    for block in toml_blocks(page):
        if block not in copied:
            assert not whole(block), f"{page.name} shows a run that no file holds:\n{block}"
            require_resolvable(tomllib.loads(block))


def require_resolvable(tables: dict[str, Any]) -> None:
    if "data" in tables:
        SftSettings.model_validate(tables)
        return
    settings = load_settings(merged(RUN, tables))
    try:
        resolve_run(settings, base=ROOT / "docs_src")
    except SettingsError as error:
        left = [problem for problem in error.problems if not problem.key.startswith(NEEDS)]
        assert not [problem for problem in left if not MISSING.search(problem.text)], left


def test_every_file_that_a_page_shows_is_resolved() -> None:
    shown = {block.file for page in PAGES for block in blocks(page.read_text())}
    files = sorted(name for name in shown if name.endswith(".toml"))
    assert "examples/sums.toml" in files
    for name in files:
        file = ROOT / name
        tables = read_toml(file)
        if "data" not in tables:
            resolve_run(load_settings(file), base=file.parent)
