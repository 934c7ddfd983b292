"""HumanEval (arXiv:2107.03374): a function's head and docstring to complete."""

import ast
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from agentfly.environments.code.tasks.program_template import Row
from agentfly.environments.code.tasks.records import read_records
from agentfly.errors import FormatError


class HumanEvalRecord(BaseModel):
    """A line of the official file."""

    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str | None = None


def humaneval_rows(path: Path) -> Iterator[Row]:
    """Read problems. The prompt is their setup, for the helpers and imports that it may hold."""
    for where, record in read_records(path, HumanEvalRecord):
        try:
            tests = _tests(record.test, record.entry_point)
            ast.parse(record.prompt)
        except SyntaxError as error:
            raise FormatError(f"{where}: prompt or test is not Python: {error}") from error
        row = {
            "id": record.task_id,
            "question": f"Complete this Python function:\n```python\n{record.prompt.rstrip()}\n```",
            "setup": record.prompt,
            "entry_point": record.entry_point,
            "tests": tests,
        }
        if record.canonical_solution is not None:
            row["solution"] = record.prompt + record.canonical_solution
        yield row


def _tests(source: str, entry_point: str) -> list[str]:
    """Make a test of each assertion of `check`; of all together, if it has other statements."""
    tree = ast.parse(source)
    checks = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == "check"]
    body = checks[-1].body if checks else []
    named, tests = _Named(entry_point), []
    if all(isinstance(statement, ast.Assert) for statement in body):
        tests = [ast.unparse(named.visit(statement)) for statement in body if _asks(statement)]
    return tests or [f"{source}\ncheck({entry_point})"]


def _asks(statement: ast.stmt) -> bool:
    """Tell whether an assertion asks anything: `assert True` would be marks for nothing."""
    return any(isinstance(x, ast.Name) and x.id == "candidate" for x in ast.walk(statement))


class _Named(ast.NodeTransformer):
    """Calls the candidate by its own name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._name, node.ctx) if node.id == "candidate" else node
