r"""A page as an observation: the published text and rich forms, byte for byte, and a compact one.

The published forms are made from the texts of an HTML page: those without letters are dropped if
they hold a line break, and are a blank otherwise; the text form joins them without blanks at their
ends, the rich form writes them on lines as they are.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agentfly.environments.webshop.page import Kind, Page, Piece

SEPARATOR = " [SEP] "
COMPACT, TEXT, RICH = "compact", "text", "rich"
_HTML_BLANKS = " \n\t\f\r"
_WELCOME = (Piece(Kind.TEXT, "WebShop"), Piece(Kind.TEXT, "Instruction: "))
_REPEATED = (Piece(Kind.TEXT, "Instruction:"),)
Chosen = tuple[tuple[str, str], ...]
"""Chosen options as pairs of name and value."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Clicks of a session that pages show."""

    chosen: Chosen = ()
    query: str = ""
    visited: frozenset[str] = frozenset()
    """Products that were opened since the last visit of the search page."""

    def has_option(self, value: str) -> bool:
        """Return whether the rich form takes an option's value for clicked.

        It looks for the quoted value in the page's address, which ends with query and options. So
        a value that JSON writes otherwise is never marked, and one that is quoted in the query is.
        """
        return f'"{value}"' in f"{self.query}/{json.dumps(dict(self.chosen))}"


def as_text(page: Page) -> str:
    """Join all visible texts. What was clicked is not shown.

    >>> as_text(Page(((Piece(Kind.BUTTON, "< Prev"),), (Piece(Kind.TEXT, "A mug"),))))
    '< Prev [SEP] A mug'
    """
    return _joined(page.pieces)


def as_rich(page: Page, marks: Marks) -> str:
    r"""Write each text on a line with buttons marked.

    >>> page = Page(((Piece(Kind.TEXT, "color"), Piece(Kind.OPTION, "red", "color")),))
    >>> as_rich(page, Marks((("color", "red"),)))
    'color\n  [clicked button] red [clicked button_]\n'
    """
    return _lines(page.pieces, marks)


def as_compact(page: Page, chosen: Chosen) -> str:
    """Write each row on a line, with [clickable] and (chosen) texts in brackets.

    >>> row = (Piece(Kind.TEXT, "size"), Piece(Kind.OPTION, "s", "size"),
    ...     Piece(Kind.OPTION, "m", "size"))
    >>> as_compact(Page((row,)), (("size", "m"),))
    'size [s] (m)'
    """
    return "\n".join(" ".join(_compact(piece, chosen) for piece in row) for row in page.rows)


def with_instruction(form: str, instruction: str, body: str, *, welcome: bool) -> str:
    """Put the instruction above a page; `welcome` is for the search page.

    >>> with_instruction("text", "Find me a mug", "Search", welcome=True)
    'WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search'
    """
    if form == COMPACT:
        return f"Instruction: {instruction.strip()}\n{body}"
    heading = (*(_WELCOME if welcome else _REPEATED), Piece(Kind.TEXT, instruction))
    if form == TEXT:
        return f"{_joined(heading)}{SEPARATOR}{body}"
    return _lines(heading, Marks()) + body


def clicked_lines(page: Page, marks: Marks) -> str:
    """Return the lines that the rich form puts above everything: the last option comes first."""
    clicked = [
        f"You have clicked {piece.text}.\n"
        for piece in page.pieces
        if piece.kind is Kind.OPTION and marks.has_option(piece.text)
    ]
    return "".join(reversed(clicked))


def _joined(pieces: Iterable[Piece]) -> str:
    return SEPARATOR.join(text.strip() for _, text in _shown(pieces))


def _lines(pieces: Iterable[Piece], marks: Marks) -> str:
    return "".join(f"{_rich(piece, text, marks)}\n" for piece, text in _shown(pieces))


def _shown(pieces: Iterable[Piece]) -> Iterator[tuple[Piece, str]]:
    """Yield the texts that a page of HTML shows."""
    for piece in pieces:
        if piece.text.strip(_HTML_BLANKS):
            yield piece, piece.text
        elif piece.text and "\n" not in piece.text:
            yield piece, " "


def _rich(piece: Piece, text: str, marks: Marks) -> str:
    match piece.kind:
        case Kind.TEXT:
            return text
        case Kind.OPTION:
            return f"  {_button(text, clicked=marks.has_option(text))}"
        case Kind.LINK:
            return f"\n{_button(text, clicked=text in marks.visited)}"
    return _button(text, clicked=False)


def _button(text: str, *, clicked: bool) -> str:
    return f"[clicked button] {text} [clicked button_]" if clicked else f"[button] {text} [button_]"


def _compact(piece: Piece, chosen: Chosen) -> str:
    text = " ".join(piece.text.split())
    if piece.kind is Kind.TEXT or piece.kind is Kind.BOX:
        return text
    return f"({text})" if (piece.option, piece.text) in chosen else f"[{text}]"
