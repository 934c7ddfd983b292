"""Tool calls of Llama 3.1 to 3.3: bare JSON with `parameters`, at times after `<|python_tag|>`.

    {"name": "search", "parameters": {"query": "cats"}}

Several are separated by semicolons. The built-in tools of Llama 3.1 are called in Python instead:

    <|python_tag|>brave_search.call(query="cats")
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from agentfly.chat.formats.call_format import (
    CUT_OFF,
    CallFormat,
    Found,
    Reading,
    assemble,
    unreadable,
    with_content,
)
from agentfly.chat.formats.json_calls import PARAMETERS, expected_call, write_call
from agentfly.chat.formats.plain_json import find_calls
from agentfly.chat.formats.pythonic import parse_expression, read_call
from agentfly.types import ToolCall

PYTHON_TAG = "<|python_tag|>"


def _read(text: str) -> Reading:
    found = list(find_calls(text, keys=PARAMETERS))
    return assemble(text, found or _find_builtin_call(text), drop=(PYTHON_TAG,))


def _find_builtin_call(text: str) -> Iterator[Found]:
    start = text.find(PYTHON_TAG)
    if start < 0:
        return
    body = text[start + len(PYTHON_TAG) :].strip()
    tree = parse_expression(body)
    if isinstance(tree, ast.Call):
        call = read_call(tree, body)
        call = replace(call, name=call.name.removesuffix(".call"))
    else:
        problem = expected_call(body, keys=PARAMETERS) if body else CUT_OFF
        call = unreadable(problem, body)
    yield Found(start, len(text), [call])


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    return with_content(content, "; ".join(write_call(call, keys=PARAMETERS) for call in calls))


LLAMA_JSON = CallFormat(name="llama-json", read=_read, write=_write)
