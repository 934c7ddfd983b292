"""docs/api/: a page for each public package, with every name's signature and docstring."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, get_args

import docstring_parser
from docstring_parser import DocstringStyle

from docs_build.public_names import PUBLIC, exported

_INTRODUCTION = """\
# The Python interface

Every name that you may rely on, by package, generated from the docstrings. What is not listed here
may change without notice. `agentfly` itself has the names that most programs need; each is
described in the package that it comes from.

| package | what it is for |
|---|---|
"""


def api_pages() -> dict[str, str]:
    """Return the pages by file name."""
    pages = {f"{package}.md": _package_page(package) for package in PUBLIC[1:]}
    rows = [f"| [`{name}`]({name}.md) | {_first_line(sys.modules[name])} |" for name in PUBLIC[1:]]
    index = "\n".join([_INTRODUCTION + "\n".join(rows), "", *_names_of_agentfly()])
    return {"index.md": index, **pages}


def _names_of_agentfly() -> Iterator[str]:
    yield "## `agentfly`\n\n| name | what it is |\n|---|---|"
    top = sys.modules["agentfly"]
    for name in dir(top):  # Those that need torch are not in `__all__`.
        value = getattr(top, name)
        home = next(p for p in PUBLIC[1:] if exported(p).get(name) is value)
        yield f"| [`{name}`]({home}.md#{name.lower()}) | {_first_line(value)} |"
    yield ""


def _package_page(package: str) -> str:
    sections = [_section(name, value) for name, value in sorted(exported(package).items())]
    about = inspect.cleandoc(sys.modules[package].__doc__ or "")
    return "\n".join([f"# `{package}`", "", about, "", *sections])


def _section(name: str, value: object) -> str:
    parts = [f"## {name}", ""]
    if callable(value) and (signature := _signature(name, value)):
        parts += ["```python", signature, "```", ""]
    parts += _markdown(inspect.getdoc(value)) if _has_docstring(value) else [_value(value), ""]
    if inspect.isclass(value):
        parts += [f"- `{field}`: {meaning}" for field, meaning in _fields(value)]
        parts += [""] if any(_fields(value)) else []
        for method, member in _methods(value):
            parts += [
                f"### {name}.{method}",
                "",
                "```python",
                _signature(method, member),
                "```",
                "",
            ]
            parts += _markdown(inspect.getdoc(member))
    return "\n".join(parts)


def _has_docstring(value: object) -> bool:
    """Return whether the docstring is its own, and not that of its type."""
    return inspect.ismodule(value) or inspect.getdoc(value) != inspect.getdoc(type(value))


def _value(value: object) -> str:
    kind = type(value).__name__
    if members := get_args(value):
        names = (getattr(member, "__name__", str(member)) for member in members)
        return f"One of {', '.join(f'`{name}`' for name in names)}."
    return f"Value of type `{kind}`."


def _first_line(value: object) -> str:
    if not _has_docstring(value):
        return _value(value)
    text = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


def _signature(name: str, value: Callable[..., Any]) -> str:
    """Return a signature without the packages of types, and with one parameter per line if long."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    text = re.sub(r" at 0x[0-9a-f]+", "", str(found)).replace("'", '"')
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])|~", "", text)
    text = text.replace("<factory>", "...")
    text = re.sub(r"<(?:function|class) \"?([\w.]+)\"?>", r"\1", text)
    if len(name + text) <= 100:
        return name + text
    parameters, arrow, result = text.removeprefix("(").rpartition(") -> ")
    if not arrow:
        parameters, result = text.removeprefix("(").removesuffix(")"), ""
    lines = [f"    {parameter}," for parameter in _split(parameters)]
    return "\n".join([f"{name}(", *lines, f"){arrow[1:]}{result}"])


def _split(parameters: str) -> list[str]:
    """Return parameters that stand between commas outside of brackets."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _markdown(docstring: str | None) -> list[str]:
    """Return a docstring of Google's style as Markdown."""
    if not docstring:
        return []
    read = docstring_parser.parse(docstring, style=DocstringStyle.GOOGLE)
    parts = [_fenced(read.description or ""), ""]
    parts += [f"- `{one.arg_name}`: {_one_line(one.description)}" for one in read.params]
    if read.returns and read.returns.description:
        parts += [f"- returns: {_one_line(read.returns.description)}"]
    parts += [f"- raises `{one.type_name}`: {_one_line(one.description)}" for one in read.raises]
    return [*parts, ""] if len(parts) > 2 else parts


def _one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def _fenced(text: str) -> str:
    """Put each paragraph that begins with `>>>` into a code block."""
    paragraphs = [
        f"```python\n{paragraph}\n```" if paragraph.lstrip().startswith(">>>") else paragraph
        for paragraph in textwrap.dedent(text).split("\n\n")
    ]
    return "\n\n".join(paragraphs)


def _fields(value: type) -> Iterator[tuple[str, str]]:
    """Yield the annotated fields of a class that have a docstring below them."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError):
        return
    definition = tree.body[0]
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, after in pairwise(body):
        match field, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ) if not name.startswith("_"):
                yield name, _one_line(meaning)


def _methods(value: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, member in vars(value).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if not name.startswith("_") and inspect.isfunction(function) and inspect.getdoc(function):
            yield name, function
