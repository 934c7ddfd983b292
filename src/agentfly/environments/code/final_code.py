"""Which code a chain is judged by.

1. The last block fenced as Python in its final response, or else the last block without a language.
2. The whole final response, if it is a Python program.
3. What it ran through a tool: the last code that ran without an error and defines a function or a
   class; or else the last that ran without an error; or else the last.
"""

import ast
import re

from agentfly.types import Trajectory

_BLOCK = re.compile(r"^```[ \t]*([\w+-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_PYTHON = ("python", "python3", "py")


def final_code(trajectory: Trajectory) -> str | None:
    """Return the code to judge; None if the chain has none."""
    said = trajectory.final_response
    return _last_block(said) or (said if _is_program(said) else _last_run(trajectory))


def _last_block(text: str) -> str | None:
    blocks: list[tuple[str, str]] = _BLOCK.findall(text)
    fenced = [code for language, code in blocks if language.lower() in _PYTHON]
    plain = [code for language, code in blocks if not language]
    return next(reversed(fenced or plain), None)


def _is_program(text: str) -> bool:
    """Tell whether a text is Python that does something: "Done" is a name, and does nothing."""
    return _holds(text, ast.Call, ast.FunctionDef, ast.ClassDef, ast.Assign)


def _last_run(trajectory: Trajectory) -> str | None:
    infos = [result.info for turn in trajectory.turns for result in turn.results]
    ran = [info for info in infos if "code" in info]
    succeeded = [info["code"] for info in ran if info["ok"]]
    defining = [code for code in succeeded if _holds(code, ast.FunctionDef, ast.ClassDef)]
    return next(reversed(defining or succeeded or [info["code"] for info in ran]), None)


def _holds(source: str, *kinds: type[ast.AST]) -> bool:
    try:
        return any(isinstance(node, kinds) for node in ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
