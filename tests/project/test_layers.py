"""A room imports only from rooms below it. The order is read from ARCHITECTURE.md itself."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agentfly"


def rooms_by_height() -> list[set[str]]:
    """Return the rooms named in ARCHITECTURE.md's list of layers, top first."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"<!-- layers -->\n```\n(.*?)```", text, re.DOTALL)
    assert block is not None, "ARCHITECTURE.md has lost its list of layers"
    return [set(line.split()) for line in block.group(1).splitlines() if line.strip()]


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("agentfly.")}
    return found & {room_of(module) for module in modules()}


def test_every_room_has_its_place_in_the_list() -> None:
    listed = set().union(*rooms_by_height())
    assert {room_of(path) for path in modules()} - {"__init__"} <= listed


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_module_imports_only_from_below(path: Path) -> None:
    if room_of(path) == "__init__":
        return
    heights = {room: h for h, rooms in enumerate(rooms_by_height()) for room in rooms}
    own = room_of(path)
    wrong = {r for r in imported_rooms(path) - {own} if heights[r] <= heights[own]}
    assert not wrong, f"{own} must not import from {wrong}"


def test_the_linter_and_the_document_tell_the_same_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = settings["tool"]["importlinter"]["contracts"][0]
    in_linter = [set(re.findall(r"agentfly\.(\w+)", layer)) for layer in contract["layers"]]
    assert in_linter == rooms_by_height()
