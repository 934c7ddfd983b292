"""Calls as a list of Python calls: Llama 3.2 and 4, and LFM2 with marks around it.

    [search(query="cats", limit=3), now()]

The list is parsed, never evaluated: arguments are literals, given by name.
"""

import ast
import keyword
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from agentfly.chat.formats.json_calls import excerpt
from agentfly.chat.formats.json_text import balanced_end, dump
from agentfly.chat.formats.marks import in_section
from agentfly.chat.formats.reading import (
    CUT_OFF,
    CallFormat,
    Found,
    Reading,
    assemble,
    unreadable,
    with_content,
)
from agentfly.chat.formats.text_values import arguments_of
from agentfly.types import ToolCall

_START = re.compile(r"\[\s*+[A-Za-z_][\w.]*+\(")
_CONSTANTS = {"true": True, "false": False, "null": None}
_EXPECTED = 'expected calls such as [name(key="value", other=1)], got '


def _find(text: str) -> Iterator[Found]:
    end = 0
    while match := _START.search(text, end):
        start, end = match.start(), balanced_end(text, match.start()) or len(text)
        calls = _calls_in(text[start:end])
        if calls:
            yield Found(start, end, calls)


def _calls_in(text: str) -> list[ToolCall]:
    """Read a list of calls; empty if it is some other list, which then is no call at all."""
    if balanced_end(text, 0) is None:
        return [unreadable(CUT_OFF, text)]
    tree = parse_expression(text)
    if tree is None:
        return [unreadable(_EXPECTED + excerpt(text), text)]
    nodes = tree.elts if isinstance(tree, ast.List) else []
    if not all(isinstance(node, ast.Call) for node in nodes):
        return []
    return [read_call(node, text) for node in nodes if isinstance(node, ast.Call)]


def parse_expression(text: str) -> ast.expr | None:
    """Parse one Python expression; None if it isn't one."""
    with warnings.catch_warnings():  # an invalid escape in a string is the model's affair
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return None


def read_call(node: ast.Call, text: str) -> ToolCall:
    """Read one parsed call of `text`."""
    name = ""
    try:
        name = ast.unparse(node.func)
        if node.args:
            raise ValueError(f"must be given by name, such as {name}(key=value)")
        values: dict[str, Any] = {}
        for pair in node.keywords:
            value = _literal(pair.value)
            values |= value if pair.arg is None else {pair.arg: value}
        return ToolCall(id="", name=name, arguments=dump(values))
    except (TypeError, ValueError, RecursionError) as error:
        return unreadable(f"the arguments of {name}(...) {error}", text, name=name)


def _literal(node: ast.expr) -> Any:
    """Return the value of a literal, with JSON's true, false and null allowed in it."""
    match node:
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            pairs = zip(keys, values, strict=True)
            return {_literal(key): _literal(value) for key, value in pairs if key is not None}
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case _:
            raise ValueError(f"must be plain values, got {excerpt(ast.unparse(node))}")


def _write_list(calls: Sequence[ToolCall]) -> str:
    return f"[{', '.join(map(_write_call, calls))}]" if calls else ""


def _write_call(call: ToolCall) -> str:
    arguments = arguments_of(call)
    if arguments is None:
        return f"{call.name}({call.arguments})"
    named = [f"{key}={value!r}" for key, value in arguments.items() if _is_plain(key)]
    others = {key: value for key, value in arguments.items() if not _is_plain(key)}
    return f"{call.name}({', '.join([*named, *([f'**{others!r}'] if others else [])])})"


def _is_plain(key: str) -> bool:
    """Tell whether a key can stand before an equals sign and comes back unchanged."""
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key)


def _pythonic(name: str, opening: str, closing: str, *, writes_marks: bool) -> CallFormat:
    def read(text: str) -> Reading:
        return assemble(text, in_section(text, opening, _find(text)), drop=(opening, closing))

    def write(calls: Sequence[ToolCall], content: str = "") -> str:
        written = _write_list(calls)
        marked = f"{opening}{written}{closing}" if written and writes_marks else written
        return with_content(content, marked)

    return CallFormat(name=name, read=read, write=write)


LLAMA_PYTHONIC = _pythonic(
    "llama-pythonic", "<|python_start|>", "<|python_end|>", writes_marks=False
)
LFM2 = _pythonic("lfm2", "<|tool_call_start|>", "<|tool_call_end|>", writes_marks=True)
