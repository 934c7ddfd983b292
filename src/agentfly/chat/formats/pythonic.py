"""Calls as a list of Python calls: Llama 3.2 and 4, and LFM2 with marks around it.

    [search(query="cats", limit=3), now()]

The list is parsed, never evaluated: arguments are literals, given by name. Some templates write
the history of such models without quotes, or with quotes around every value:

    [search(query=cats and dogs, limit=3), now()]
    [search(query="cats and dogs", limit="3")]

These values don't show their type: it comes from the tool's schema (see `text_values`). A value
ends where the next key or the end of the call follows.
"""

import ast
import keyword
import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from agentfly.chat.formats.call_format import (
    CUT_OFF,
    Found,
    Reading,
    assemble,
    unreadable,
)
from agentfly.chat.formats.json_calls import excerpt
from agentfly.chat.formats.json_text import balanced_end, dump
from agentfly.chat.formats.marks import in_section
from agentfly.chat.formats.text_values import value_of
from agentfly.types import ToolCall

_LIST = r"\[\s*+[A-Za-z_][\w.]*+\("
_START = re.compile(_LIST)
_STRING_START = re.compile(r"[(,]\s*+[A-Za-z_]\w*+\s*+=\s*+'")
_STRING_END = re.compile(r"'(?=\s*+(?:,\s*+[A-Za-z_]\w*+\s*+=|\)))")
_CALL = re.compile(r"\s*+([A-Za-z_][\w.]*+)\(\s*+")
_KEY = re.compile(r"([A-Za-z_]\w*+)\s*+=\s*+")
_QUOTED = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')(?=\s*+[,)])""", re.S)
_VALUE_END = re.compile(r"(,\s*+)(?=[A-Za-z_]\w*+\s*+=)|\)(?=\s*+(?:,\s*+[A-Za-z_][\w.]*+\(|\]))")
_CALL_END = re.compile(r"\s*+([,\]])")
_UNPARSABLE = (SyntaxError, ValueError, MemoryError, RecursionError)
_CONSTANTS = {"true": True, "false": False, "null": None}
_EXPECTED = 'expected calls such as [name(key="value", other=1)], got '


def python_reader(opening: str, closing: str, *, as_text: bool = False) -> Callable[[str], Reading]:
    """Return what reads Python calls: a list of them, or, between marks, one on each line.

    With `as_text`, values may be without quotes, or all within quotes.
    """

    def read(text: str) -> Reading:
        found = _find(text, opening, closing, as_text=as_text)
        found = in_section(text, opening, found) if opening else found
        return assemble(text, found, drop=tuple(filter(None, (opening, closing))))

    return read


def _find(text: str, opening: str, closing: str, *, as_text: bool) -> Iterator[Found]:
    end = 0
    pattern = re.compile(rf"{re.escape(opening)}\s*+(?=[A-Za-z_])|{_LIST}") if opening else _START
    while match := pattern.search(text, end):
        start = match.start()
        if opening and match[0].startswith(opening):
            calls, end = _lines_at(text, match.end(), closing)
        else:
            calls, end = (as_text and _text_list_at(text, start)) or _list_at(text, start, closing)
        if calls:
            yield Found(start, end, calls)


def _text_list_at(text: str, start: int) -> tuple[list[ToolCall], int] | None:
    """Read a list whose values may be bare text; as Python where it is Python."""
    found = read_text_list(text, start)
    if found is None:
        return None
    as_python = _calls_in(text[start : found[1]])
    is_python = as_python and not any(call.problem for call in as_python)
    return (as_python, found[1]) if is_python else found


def _list_at(text: str, start: int, closing: str) -> tuple[list[ToolCall], int]:
    """Read a list up to its bracket, or, if that is unclear, up to the mark that closes it."""
    end = balanced_end(text, start) or len(text)
    calls = _calls_in(text[start:end])
    stop = text.find(closing, start) if closing and any(call.problem for call in calls) else -1
    if stop >= 0:
        others = _calls_in(text[start:stop].strip(), cut=False)
        if others and not any(call.problem for call in others):
            return others, stop
    return calls, end


def _lines_at(text: str, start: int, closing: str) -> tuple[list[ToolCall], int]:
    """Read calls on lines of their own, up to the closing mark."""
    stop = text.find(closing, start) if closing else -1
    if stop < 0:
        return [unreadable(CUT_OFF, text[start:])], len(text)
    body = text[start:stop].strip()
    try:
        nodes = [getattr(node, "value", None) for node in _parse(body, "exec").body]
    except _UNPARSABLE:
        nodes = [None]
    calls = [read_call(node, body) for node in nodes if isinstance(node, ast.Call)]
    if not nodes or len(calls) < len(nodes):
        calls = [unreadable(_EXPECTED + excerpt(body), body)]
    return calls, stop + len(closing)


def _calls_in(text: str, *, cut: bool = True) -> list[ToolCall]:
    """Read a list of calls; empty if it is some other list, which then is no call at all.

    `cut` says that the list may lack its end.
    """
    if cut and balanced_end(text, 0) is None:
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
    for attempt in (text, _with_strings_escaped(text)):
        try:
            parsed: ast.expr = _parse(attempt, "eval").body
            return parsed
        except _UNPARSABLE:
            continue
    return None


def _parse(text: str, mode: Literal["eval", "exec"]) -> Any:
    with warnings.catch_warnings():  # an invalid escape in a string is the model's affair
        warnings.simplefilter("ignore")
        return ast.parse(text, mode=mode)


def _with_strings_escaped(text: str) -> str:
    """Escape strings that templates put between quotes as they are, line breaks and all.

    Such a string ends at the first quote behind which the next argument or the call's end comes.
    """
    ends = [match.start() for match in _STRING_END.finditer(text)]
    pieces, at = list[str](), 0
    for start in _STRING_START.finditer(text):
        place = bisect_left(ends, start.end())
        if start.start() < at or place == len(ends):
            continue
        pieces += [text[at : start.end() - 1], repr(text[start.end() : ends[place]])]
        at = ends[place] + 1
    return "".join([*pieces, text[at:]])


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


def write_keywords(arguments: Mapping[str, Any]) -> str:
    """Write arguments between a call's parentheses: `query='cats', limit=3`."""
    named = [f"{key}={value!r}" for key, value in arguments.items() if _is_plain(key)]
    others = {key: value for key, value in arguments.items() if not _is_plain(key)}
    return ", ".join([*named, *([f"**{others!r}"] if others else [])])


def _is_plain(key: str) -> bool:
    """Return whether a key can be written before an equals sign and is parsed back unchanged."""
    return key.isascii() and key.isidentifier() and not keyword.iskeyword(key)


def read_text_list(text: str, start: int) -> tuple[list[ToolCall], int] | None:
    """Read the list whose bracket is at `start`, up to its end; None if it isn't one.

    >>> (call,), end = read_text_list("[search(query=cats and dogs, limit=3)].", 0)
    >>> call.arguments, end
    ('{"query": "cats and dogs", "limit": 3}', 38)
    """
    calls, at = list[ToolCall](), start + 1
    while name := _CALL.match(text, at):
        read = _arguments_at(text, name.end())
        closing = _CALL_END.match(text, read[1]) if read else None
        if read is None or closing is None:
            return None
        calls.append(ToolCall(id="", name=name[1], arguments=dump(read[0])))
        at = closing.end()
        if closing[1] == "]":
            return calls, at
    return None


def _arguments_at(text: str, at: int) -> tuple[dict[str, Any], int] | None:
    """Return the arguments that begin here, and the place behind their parenthesis."""
    if text.startswith(")", at):
        return {}, at + 1
    values: dict[str, Any] = {}
    while key := _KEY.match(text, at):
        quoted = _QUOTED.match(text, key.end())
        ends = _VALUE_END.search(text, quoted.end() if quoted else key.end())
        if ends is None:
            return None
        written = text[key.end() : ends.start()].strip()
        values[key[1]] = _unquoted(written) if quoted else value_of(written)
        at = ends.end()
        if not ends[1]:
            return values, at
    return None


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return text[1:-1]  # a line break, or an escape that is none
