"""The documentation shows only code that runs, and is equal to the code that it describes."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from docs_build.code_blocks import ROOT, blocks, pages, shown_outputs, with_current_files
from docs_build.command_page import command_page, commands
from docs_build.public_names import PUBLIC, exported
from tests.warm_python import WarmPython

FIX = "run `make docs-sync` (python -m docs_build)"
PAGES = pages()
SNIPPETS = sorted((ROOT / "docs_src").rglob("*.py"))
LARGE_MODEL = "smollm2"
"""What loads this model takes long on a busy machine."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def marks_of(path: Path) -> list[pytest.MarkDecorator]:
    text = path.read_text()
    marks = [pytest.mark.slow] if LARGE_MODEL in text else []
    return [*marks, pytest.mark.browser] if "environments.browser" in text else marks


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=marks_of(path)) for path in SNIPPETS],
)
def test_the_snippet_runs_and_prints_what_the_pages_show(
    path: Path, warm_python: WarmPython
) -> None:
    printed = warm_python.run(path, cwd=ROOT)
    for shown in shown_outputs(name_of(path)):
        assert shown == printed, f"{FIX} --outputs"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_copy_of_a_file_is_equal_to_it(page: Path) -> None:
    assert with_current_files(page.read_text()) == page.read_text(), FIX


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_shows_python_only_from_files_that_run(page: Path) -> None:
    if page.parent.name == "api":  # Signatures, and examples of docstrings, which are doctests.
        return
    text = page.read_text()
    copied = {block.text for block in blocks(text) if not block.output}
    for block in re.findall(r"^(?:```+)(?:python|py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        assert block in copied, f"{page.name} shows Python that no test runs:\n{block}"
    for marked in blocks(text):
        assert marked.file.startswith(("docs_src/", "examples/"))


def test_every_snippet_is_shown_somewhere() -> None:
    shown = {block.file for page in PAGES for block in blocks(page.read_text())}
    assert not [name_of(path) for path in SNIPPETS if name_of(path) not in shown]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_toml_can_be_read(page: Path) -> None:
    for block in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        tomllib.loads(block)


def test_the_page_of_commands_is_equal_to_the_commands() -> None:
    assert (ROOT / "docs" / "commands.md").read_text() == command_page(), FIX


def test_every_command_line_names_a_command_and_its_options() -> None:
    known = dict(commands())
    for page in PAGES:
        for line in re.findall(r"^\$? ?(agentfly [a-z].*)$", page.read_text(), re.MULTILINE):
            words = shlex.split(line.replace("...", ""), comments=True)
            name = next((n for n in known if words[: len(n.split())] == n.split()), None)
            assert name, f"{page.name} calls an unknown command: {line}"
            options = {o for p in known[name].params for o in (*p.opts, *p.secondary_opts)}
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert given <= {*options, "--help"}, f"{page.name} gives an unknown option: {line}"


def test_every_page_is_in_the_navigation_and_in_the_index() -> None:
    docs = ROOT / "docs"
    every = {str(page.relative_to(docs)) for page in docs.rglob("*.md")}
    every = {page for page in every if not page.startswith("results/")}
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    in_navigation = re.findall(r"[\w./-]+\.md", navigation)
    assert sorted(in_navigation) == sorted(every)
    indexes = [docs / "index.md", docs / "api" / "index.md"]
    linked = {
        str((page.parent / target).relative_to(docs))
        for page in indexes
        for target in re.findall(r"\]\(([^):#]+)", page.read_text())
    }
    assert linked >= every - {"index.md"}


@pytest.mark.parametrize("package", PUBLIC[1:])
def test_the_api_pages_have_every_public_name(package: str) -> None:
    text = (ROOT / "docs" / "api" / f"{package}.md").read_text()
    assert re.findall(r"^## (\w+)$", text, re.MULTILINE) == sorted(exported(package)), FIX


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
