"""Plain values as text: parsed without running code, written without depending on names."""

import ast
import math
import re
from typing import Any

MAX_CHARACTERS = 100_000
"""Maximum length of an answer that is parsed."""

_FLOATS = {"inf": math.inf, "nan": math.nan}
_WRAPPERS = ("array", "Counter", "dict", "frozenset", "int", "float", "str_")
"""Calls that may wrap a plain value: `Counter({'a': 1})`, `array([1, 2])`."""
_NUMPY_WRAPPER = re.compile(r"(u?int|float)\d+")
_DEFAULTDICT = re.compile(r"\bdefaultdict\((?:<[^<>]*>|None), ")


class NotPlainError(ValueError):
    """The text is not a plain value."""


def read_value(text: str) -> Any:
    """Parse the `repr` of numbers, texts, and lists, tuples, sets and dicts of them.

    Values of numpy and special dicts become plain ones.

    >>> read_value("[1, (2.5, 'x'), {3}, np.int64(4), inf]")
    [1, (2.5, 'x'), {3}, 4, inf]
    >>> read_value("__import__('os').getcwd()")
    Traceback (most recent call last):
    agentfly.environments.code.judging.literal.NotPlainError: no plain value: __import__('os')...
    """
    if len(text) > MAX_CHARACTERS:
        raise NotPlainError(f"more than {MAX_CHARACTERS} characters")
    try:
        tree = ast.parse(_DEFAULTDICT.sub("dict(", text), mode="eval")
        value = ast.literal_eval(_Plain().visit(tree))
        repr(value)  # Digits beyond Python's limit can be read, as 0xFF…, and not written.
    except (SyntaxError, TypeError, ValueError, RecursionError, MemoryError) as error:
        raise NotPlainError(f"no plain value: {text[:80]}") from error
    return value


def write_value(value: object) -> str:
    """Write a plain value as an expression that needs no names, not even built-in ones.

    >>> write_value([1, (2,), set(), float("inf")])
    '[1, (2, ), {*(), }, 1e999]'
    """
    match value:
        case float() if not math.isfinite(value):
            return "(1e999-1e999)" if math.isnan(value) else f"{'-' * (value < 0)}1e999"
        case list():
            return f"[{', '.join(map(write_value, value))}]"
        case tuple():
            return f"({''.join(f'{write_value(item)}, ' for item in value)})"
        case set():
            return f"{{*(), {', '.join(map(write_value, value))}}}"
        case dict():
            items = (f"{write_value(key)}: {write_value(item)}" for key, item in value.items())
            return f"{{{', '.join(items)}}}"
    return repr(value)


def same(said: object, expected: object) -> bool:
    """Compare an answer with a JSON value: tuples equal lists, and keys are texts.

    >>> same((1, {2: 0.1 + 0.2}), [1, {"2": 0.3}])
    True
    """
    match said, expected:
        case (list() | tuple(), list() | tuple()):
            return len(said) == len(expected) and all(map(same, said, expected))
        case (dict(), dict()):
            ours, theirs = _by_text(said), _by_text(expected)
            # Keys that are the same text, such as 1 and "1", are still two.
            is_alike = len(said) == len(expected) and ours.keys() == theirs.keys()
            return is_alike and all(same(ours[k], theirs[k]) for k in ours)
        case (int() | float(), int() | float()) if float in (type(said), type(expected)):
            return _close(said, expected)
    return said == expected


def _close(said: float, expected: float) -> bool:
    try:
        return math.isclose(said, expected, rel_tol=1e-9, abs_tol=1e-9)
    except OverflowError:  # An integer too large for a float.
        return False


def _by_text(table: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in table.items()}


class _Plain(ast.NodeTransformer):
    """Replaces nodes that `literal_eval` does not support by plain ones."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if node.value is Ellipsis:
            raise ValueError("numpy leaves out the middle of a long array")
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_FLOATS[node.id]) if node.id in _FLOATS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return ast.Constant(node.attr == "True_") if node.attr in ("True_", "False_") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = str(getattr(node.func, "attr", getattr(node.func, "id", "")))
        if len(node.args) == 1 and (name in _WRAPPERS or _NUMPY_WRAPPER.fullmatch(name)):
            inner: ast.AST = self.visit(node.args[0])
            return inner
        return node
