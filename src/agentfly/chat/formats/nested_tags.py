r"""Parameters as nested tags: objects and lists are tags inside tags, never JSON.

    <city>Rome</city><days><item>1</item><item>2</item></days>

Each tag has the same mark before it, which no value contains (MiniMax M3: `]<]minimax[>[`).
"""

import re
from dataclasses import dataclass
from typing import Any

from agentfly.chat.formats.text_values import text_of, value_of

ITEM = "item"
"""The tag of a list's items."""


@dataclass(slots=True)
class _Open:
    """A tag that is open."""

    key: str
    begin: int
    """Where its text begins."""
    children: list[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class NestedTags:
    """How such tags are marked."""

    mark: str
    tag: re.Pattern[str]

    @classmethod
    def of(cls, parameter: str) -> "NestedTags":
        """Take the mark from the text of one parameter: what stands before `<{key}>`."""
        mark = parameter.partition("<{key}>")[0]
        return cls(mark, re.compile(rf"{re.escape(mark)}<(/?)([^<>\s\"]*+)>"))

    def read(self, text: str, pos: int, stop: int) -> tuple[dict[str, Any], int]:
        """Return the parameters from `pos` on, and where they end: before a tag of another kind.

        `stop` is where the next call begins, which no parameter contains.
        """
        top = _Open("", pos, [])
        unclosed = [top]
        end = pos
        for tag in self.tag.finditer(text, pos, stop):
            if tag[1] and tag[2] != unclosed[-1].key:
                break
            if not tag[1]:
                if len(unclosed) == 1 and text[end : tag.start()].strip():
                    break
                unclosed.append(_Open(tag[2], tag.end(), []))
                continue
            closed = unclosed.pop()
            unclosed[-1].children.append((closed.key, _value(closed, text, tag.start())))
            if len(unclosed) == 1:
                end = tag.end()
        return dict(top.children), end


def _value(tag: _Open, text: str, end: int) -> Any:
    if not tag.children:
        return value_of(text[tag.begin : end])
    if all(key == ITEM for key, _ in tag.children):
        return [value for _, value in tag.children]
    return dict(tag.children)


def write_nested(key: str, value: object, mark: str) -> str:
    """Write a parameter and all that is in it; null is left out."""
    match value:
        case None:
            return ""
        case dict():
            inner = "".join(write_nested(name, part, mark) for name, part in value.items())
        case list():
            inner = "".join(write_nested(ITEM, part, mark) for part in value)
        case _:
            inner = text_of(value)
    return f"{mark}<{key}>{inner}{mark}</{key}>"
