r"""Native call formats as data: the text of a call, with placeholders for what changes.

    hermes        <tool_call>\n{"name": "{name}", "arguments": {arguments}}\n</tool_call>
    mistral-v11   [TOOL_CALLS]{name}[ARGS]{arguments}
    qwen3-coder   <tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>
                  each parameter: <parameter={key}>\n{value}\n</parameter>\n
    lfm2          {name}({parameters})        each parameter: {key}={value}

The placeholders decide how a call is read: as JSON, as JSON arguments behind a name, as tagged
parameters, or as Python. The same data writes calls, and builds the error message that shows a
model what was expected.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentfly.chat.formats.call_format import with_content
from agentfly.chat.formats.json_text import dump
from agentfly.chat.formats.pythonic import write_keywords
from agentfly.chat.formats.text_values import arguments_of, text_of, type_of, write_nested
from agentfly.types import ToolCall

_PLACEHOLDER = re.compile(
    r'"\{(?:id|name)\}"|\{(?:id|index|name|arguments|parameters|key|value|string|type)\}'
)
_MARK = re.compile(r"\s*+(<[^<>]*+>|\[[A-Z_]++\]|\S++)")
_PLACEHOLDER_PATTERNS: Mapping[str, Callable[[bool], str]] = {
    "{name}": lambda last: rf"(?P<name>[^\s<>\[\]{{}}\"`]{'+' if last else '*'})",
    "{id}": lambda _: r"(?P<id>[^\s<>\[\]{}\"`]*)",
    "{index}": lambda _: r"(?P<index>\d+)",
    "{key}": lambda _: r"(?P<key>[^<>\"\n]*+)",
    "{string}": lambda _: r"(?P<string>true|false)",
    "{type}": lambda _: r"(?P<type>[a-z]+)",
}
_ANY_MARK = re.compile(r"</?[^<>\s{}]+[=>]|\[[A-Z_]++\]")
_LIST_OPENING = re.compile(r"(?:\s|```\w*|\[)+\Z")
_BRACES = re.compile(r"\A[\s}]+")
_FENCE = re.compile(r"\A\s*```")
_LIST_CLOSING = re.compile(r"\A(?:\s|```|\])+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout in which a family of models writes its calls.

    >>> layout = Layout(name="functionary", call="<function={name}>{arguments}</function>")
    >>> layout.write([ToolCall(id="call_0", name="f", arguments="{}")])
    '<function=f>{}</function>'
    >>> layout.opening, layout.closing
    ('<function=', '</function>')
    """

    name: str
    call: str
    """The text of one call: exactly one of `{arguments}` and `{parameters}`, and a `{name}`."""
    between: str = ""
    """Separator of two calls."""
    section: tuple[str, str] = ("", "")
    """Text before and behind all calls of a turn."""
    parameter: str = ""
    """The text of one parameter, where there is a placeholder for them."""
    header: str = ""
    """Text before each call that contains its name too, in formats with a recipient."""
    quote: str = ""
    """The mark around strings, in arguments that are almost JSON, as Gemma writes them."""
    quotes_all: bool = False
    """Whether that mark may enclose every value, so that none shows its type."""
    nested: bool = False
    """Whether lists and objects are written as tags inside a parameter's tags."""
    first_index: int = 0
    """The number of a turn's first call, where calls are numbered."""
    also: tuple[str, ...] = ()
    """Other texts of a call that models of this family are known to write: read, never written."""

    @property
    def is_json(self) -> bool:
        """True if the name is inside the JSON, as in `{"name": "f", "arguments": {}}`."""
        return '"{name}"' in self.call and not self.parameter

    @property
    def is_python(self) -> bool:
        """True if calls are Python calls."""
        return self.parameter == "{key}={value}"

    @property
    def opening(self) -> str:
        """The mark with which a call begins; empty if there is none."""
        before, _, _ = self.call.partition("{")
        literal = _LIST_OPENING.sub("", before) or _LIST_OPENING.sub("", self.section[0])
        first = _MARK.match(literal)
        return first[1] if first and not self.is_json else literal.strip()

    @property
    def closing(self) -> str:
        """The mark with which a call ends; empty if there is none."""
        behind = self.call[last_placeholder(self.call).end() :]
        own = (_BRACES if self.is_json else _FENCE).sub("", behind)
        return own.strip() or ("" if self.call_mark else self._section_closing())

    @property
    def call_mark(self) -> bool:
        """True if each call has an opening mark of its own."""
        return bool(_LIST_OPENING.sub("", self.call.partition("{")[0]))

    @property
    def section_marks(self) -> tuple[str, str]:
        """The marks around all calls, without the brackets of a list."""
        return _LIST_OPENING.sub("", self.section[0]).strip(), self._section_closing()

    def _section_closing(self) -> str:
        opening = _LIST_OPENING.search(self.section[0])
        is_list = opening is not None and "[" in opening[0]
        return (_LIST_CLOSING.sub("", self.section[1]) if is_list else self.section[1]).strip()

    @property
    def signs(self) -> tuple[str, ...]:
        """Marks that identify the format in a text that describes it."""
        texts = (self.section[0], self.call, self.parameter, self.section[1])
        return tuple(mark for text in texts for mark in _ANY_MARK.findall(text))

    def expected(self) -> str:
        """Return the part of an error message that shows the model an example call."""
        parameters = fill(
            self.parameter, {"key": "KEY", "value": "VALUE", "string": "true", "type": "string"}
        )
        arguments = (
            '{"KEY": "VALUE"}' if not self.quote else f"{{KEY:{self.quote}VALUE{self.quote}}}"
        )
        example = fill(
            self.call,
            {
                **{"id": "ID", "index": str(self.first_index), "name": "NAME"},
                **{"arguments": arguments, "parameters": parameters},
            },
        )
        return f"expected {self.section[0]}{example}{self.section[1]}"

    @property
    def markup(self) -> tuple[str, ...]:
        """Markup between and around calls, which is not content."""
        between = self.between.strip()
        marks = (between if len(between) > 1 else "", *self.section_marks)
        return tuple(filter(None, marks))

    def write(self, calls: Sequence[ToolCall], content: str = "") -> str:
        """Write calls after what is said; arguments that are no object, word for word."""
        if not calls:
            return content
        written = self.between.join(map(self._write_call, calls, range(len(calls))))
        return with_content(content, f"{self.section[0]}{written}{self.section[1]}")

    def _write_call(self, call: ToolCall, index: int) -> str:
        arguments = self._arguments(call)
        number = _own_index(call) or str(self.first_index + index)
        return fill(
            self.header + self.call,
            {
                **{"id": call.id, "index": number, "name": call.name},
                **{"arguments": arguments, "parameters": arguments},
            },
        )

    def _arguments(self, call: ToolCall) -> str:
        """Write a call's arguments; word for word if they are no object, or too deeply nested."""
        arguments = arguments_of(call) if self.quote or self.parameter else None
        if arguments is None:
            return call.arguments
        try:
            if self.quote:
                return _write_quoted(arguments, self.quote)
            if self.is_python:
                return write_keywords(arguments)
            return "".join(self._parameter(key, value) for key, value in arguments.items())
        except RecursionError:
            return call.arguments

    def _parameter(self, key: str, value: object) -> str:
        if self.nested:
            return write_nested(key, value, self.parameter.partition("<{key}>")[0])
        said = {"string": "true" if isinstance(value, str) else "false", "type": type_of(value)}
        return fill(self.parameter, {"key": key, "value": text_of(value), **said})


def _own_index(call: ToolCall) -> str:
    """Return the number in an id that also contains the call's name, as Kimi's ids do."""
    head, _, index = call.id.rpartition(":")
    return index if index.isdecimal() and head.endswith(call.name) else ""


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill a text's placeholders; those between quotes are written as JSON strings."""

    def filled(placeholder: re.Match[str]) -> str:
        quoted = placeholder[0].startswith('"')
        value = values[placeholder[0].strip('"{}')]
        return dump(value) if quoted else value

    return _PLACEHOLDER.sub(filled, text)


def last_placeholder(text: str) -> re.Match[str]:
    """Return the last placeholder of a text."""
    *_, last = _PLACEHOLDER.finditer(text)
    return last


def placeholder_pattern(text: str) -> str:
    r"""Return a pattern that matches a text, any white space, with placeholders as groups.

    >>> re.match(placeholder_pattern('<invoke name="{name}">\n'), '<invoke name="f">')["name"]
    'f'
    """
    pattern, at = r"\s*+", 0
    for placeholder in _PLACEHOLDER.finditer(text):
        last = placeholder.end() == len(text)
        quote = '"' if placeholder[0].startswith('"') else ""
        group = _PLACEHOLDER_PATTERNS[placeholder[0].strip('"')](last)
        pattern += f"{_literal_pattern(text[at : placeholder.start()])}{quote}{group}{quote}"
        at = placeholder.end()
    return pattern + _literal_pattern(text[at:])


def _literal_pattern(text: str) -> str:
    pieces = re.split(r"(\s+)", text)
    return "".join(r"\s*+" if piece.isspace() else re.escape(piece) for piece in pieces)


def _write_quoted(value: object, quote: str) -> str:
    """Write a value as almost JSON, with strings between quotation marks of their own."""
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            pairs = (f"{key}:{_write_quoted(item, quote)}" for key, item in value.items())
            return f"{{{','.join(pairs)}}}"
        case list():
            return f"[{','.join(_write_quoted(item, quote) for item in value)}]"
        case _:
            return dump(value)
