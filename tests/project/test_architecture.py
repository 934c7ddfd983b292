"""ARCHITECTURE.md describes the code as it is: the tree of modules, and the walk of a run."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "agentfly"
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


@dataclass(frozen=True)
class Entry:
    """A line of the tree: `    metrics         names; rollout_metrics: computing them`."""

    folder: Path
    names: tuple[str, ...]
    also: tuple[str, ...]
    """Modules that the description mentions, each as `name: what it is`."""


def entries() -> Iterator[Entry]:
    block = re.search(r"```\nsrc/agentfly/\n(.*?)```", TEXT, re.DOTALL)
    assert block is not None, "ARCHITECTURE.md has lost its tree"
    parents = [SOURCE]
    for line in block[1].splitlines():
        indent = len(line) - len(line.lstrip())
        if indent > 8:
            continue  # the description of the line before goes on
        del parents[indent // 2 :]
        column = re.match(r" +([a-z_./]+(?:, [a-z_]+)*) *", line)
        assert column is not None, f"the tree has a line without a name: {line}"
        names = tuple(column[1].split(", "))
        also = re.findall(r"(?:^|; )([a-z_]+/?(?:, [a-z_]+)*): ", line[column.end() :])
        mentioned = tuple(name for found in also for name in found.split(", "))
        yield Entry(parents[-1], names, mentioned)
        parents.append(parents[-1] / names[0])


def is_module(folder: Path, name: str) -> bool:
    path = folder / name.rstrip("/").removesuffix(".py")
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize("entry", list(entries()), ids=lambda entry: ", ".join(entry.names))
def test_the_tree_names_modules_that_exist(entry: Entry) -> None:
    missing = [
        name for name in entry.names if not is_module(entry.folder, name.removesuffix(".py"))
    ]
    inside = entry.folder / entry.names[0]
    missing += [
        name
        for name in entry.also
        if not is_module(entry.folder, name) and not is_module(inside, name)
    ]
    assert not missing, f"{entry.folder.relative_to(SOURCE)} has no {missing}"


def test_every_package_is_in_the_tree() -> None:
    listed = {entry.names[0].rstrip("/") for entry in entries() if entry.folder == SOURCE}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages | {"errors.py"} == listed


@dataclass(frozen=True)
class Hop:
    """A row of the walk: a caller, the name that it calls, and the file that defines the name."""

    caller: str
    name: str
    callee: str


def hops() -> list[Hop]:
    table = re.search(r"<!-- walk -->\n(.*?)\n\n", TEXT, re.DOTALL)
    assert table is not None, "ARCHITECTURE.md has lost the walk of a run"
    rows = re.findall(r"^\| `([\w/.]+)` \| `(\w+)` \| `([\w/.]+)` \|", table[1], re.MULTILINE)
    assert len(rows) == len(table[1].splitlines()) - 2, "a row of the walk can't be read"
    return [Hop(*row) for row in rows]


@cache
def tree_of(file: str) -> ast.Module:
    return ast.parse((SOURCE / file).read_text())


def used_in(file: str) -> set[str]:
    """Return all names that a file uses or imports."""
    used = set()
    for node in ast.walk(tree_of(file)):
        if isinstance(node, ast.Attribute):
            used.add(node.attr)
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.alias):
            used.add(node.name)
    return used


def defined_in(file: str) -> set[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree_of(file)) if isinstance(node, kinds)}


@pytest.mark.parametrize("hop", hops(), ids=lambda hop: f"{hop.caller} → {hop.name}")
def test_each_hop_of_the_walk_is_in_the_code(hop: Hop) -> None:
    assert hop.name in used_in(hop.caller), f"{hop.caller} does not call {hop.name}"
    assert hop.name in defined_in(hop.callee), f"{hop.callee} does not define {hop.name}"


def test_each_hop_begins_where_an_earlier_one_arrived() -> None:
    reached = {"cli/train.py"}
    for hop in hops():
        assert hop.caller in reached, f"the walk has not reached {hop.caller} yet"
        reached.add(hop.callee)
    assert {"training/loop.py", "rollout/chain.py", "training/learner/learner.py"} <= reached
