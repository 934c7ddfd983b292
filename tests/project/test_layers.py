"""A package imports only from packages below it, in the order that ARCHITECTURE.md lists."""

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agentfly"


def packages_by_height() -> list[set[str]]:
    """Return the packages in ARCHITECTURE.md's list of layers, top first."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"<!-- layers -->\n```\n(.*?)```", text, re.DOTALL)
    assert block is not None, "ARCHITECTURE.md has lost its list of layers"
    return [set(line.split()) for line in block.group(1).splitlines() if line.strip()]


@cache
def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("agentfly.")}
    return found & packages()


@cache
def packages() -> set[str]:
    return {package_of(module) for module in modules()}


def test_every_package_is_in_the_list() -> None:
    listed = set().union(*packages_by_height())
    assert packages() - {"__init__"} <= listed


def test_a_module_imports_only_from_below() -> None:
    assert len(modules()) > 100
    heights = {
        package: h for h, packages in enumerate(packages_by_height()) for package in packages
    }
    wrong = [
        f"{path.relative_to(SOURCE)} must not import from {imported}"
        for path in modules()
        for imported in imported_packages(path) - {package_of(path), "__init__"}
        if package_of(path) != "__init__" and heights[imported] <= heights[package_of(path)]
    ]
    assert not wrong


def test_the_linter_and_the_document_have_the_same_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    in_linter = [set(re.findall(r"agentfly\.(\w+)", layer)) for layer in contract["layers"]]
    assert in_linter == packages_by_height()
