"""What the agent reads of a page: the published text and rich forms, and a compact one."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from agentfly.environments.webshop.page import Kind, Page, Piece

SEPARATOR = " [SEP] "
Chosen = tuple[tuple[str, str], ...]
"""Options by name and value."""


def as_text(page: Page, chosen: Chosen = ()) -> str:
    """Join all visible texts. What is chosen can't be seen.

    >>> as_text(Page(((Piece(Kind.BUTTON, "< Prev"),), (Piece(Kind.TEXT, "A mug"),))))
    '< Prev [SEP] A mug'
    """
    del chosen
    return SEPARATOR.join(piece.text for piece in page.pieces)


def as_rich(page: Page, chosen: Chosen = ()) -> str:
    """Put each text on a line, buttons marked, and first of all what is chosen.

    >>> print(as_rich(Page(((Piece(Kind.OPTION, "red", "color"),),)), (("color", "red"),)))
    You have clicked red.
    [clicked button] red [clicked button_]
    """
    told = [f"You have clicked {value}." for _, value in chosen]
    return "\n".join([*told, *(_rich_line(piece, chosen) for piece in page.pieces)])


def as_compact(page: Page, chosen: Chosen = ()) -> str:
    """Write each row on a line, what can be clicked in brackets, what is chosen in round ones.

    >>> row = (Piece(Kind.TEXT, "size"), Piece(Kind.OPTION, "s", "size"),
    ...     Piece(Kind.OPTION, "m", "size"))
    >>> as_compact(Page((row,)), (("size", "m"),))
    'size [s] (m)'
    """
    return "\n".join(" ".join(_compact(piece, chosen) for piece in row) for row in page.rows)


FORMS: Mapping[str, Callable[[Page, Chosen], str]] = MappingProxyType(
    {"compact": as_compact, "text": as_text, "rich": as_rich}
)
_INSTRUCTION = {
    "compact": "Instruction: {}\n",
    "text": f"Instruction:{SEPARATOR}{{}}{SEPARATOR}",
    "rich": "Instruction:\n{}\n",
}
_WELCOME = {"compact": "", "text": f"WebShop{SEPARATOR}", "rich": "WebShop\n"}


def with_instruction(form: str, instruction: str, body: str, *, welcome: bool) -> str:
    """Put the instruction over a page.

    >>> with_instruction("text", "Find me a mug", "Search", welcome=True)
    'WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search'
    """
    heading = _WELCOME[form] if welcome else ""
    return heading + _INSTRUCTION[form].format(instruction.strip()) + body


def _rich_line(piece: Piece, chosen: Chosen) -> str:
    if piece.kind is Kind.TEXT:
        return piece.text
    if (piece.option, piece.text) in chosen:
        return f"[clicked button] {piece.text} [clicked button_]"
    return f"[button] {piece.text} [button_]"


def _compact(piece: Piece, chosen: Chosen) -> str:
    if piece.kind is Kind.TEXT or piece.kind is Kind.BOX:
        return piece.text
    return f"({piece.text})" if (piece.option, piece.text) in chosen else f"[{piece.text}]"
