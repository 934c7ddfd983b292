"""Reading texts and results back from an observation in any of its forms."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agentfly.environments.webshop.page_forms import SEPARATOR

_RICH = re.compile(r"\[(?:clicked )?button_?\]")
_IN_BRACKETS = re.compile(r"(?:^|(?<= ))(?:\[(.+?)\]|\((.+?)\))(?= [\[(]|$)")
"""A piece of a compact row. Brackets inside a piece don't end it: only the next piece does."""
_RESULT_ROW = re.compile(r"\[([^\s\[\]]+)\] (.*\$[\d.]+)")
_RESULT = re.compile(r"(?!.*\bPrice: )(?P<title>.*?)\s*(?P<price>\$[\d.]+(?: to \$[\d.]+)?)")
_ASIN = re.compile(r"[A-Z0-9]{3,10}")


@dataclass(frozen=True, slots=True)
class Result:
    """One line of search results."""

    asin: str
    title: str
    price: float
    """Price, or the upper end of a price range."""


def visible_pieces(observation: str) -> list[str]:
    r"""Return the texts of a page in order.

    >>> visible_pieces("[< Prev]\nsize [s] (m)"), visible_pieces("< Prev [SEP] size [SEP] s")
    (['< Prev', 'size', 's', 'm'], ['< Prev', 'size', 's'])
    """
    page = observation.partition("\nPossible: ")[0]
    if SEPARATOR in page:
        pieces = page.split(SEPARATOR)
    elif _RICH.search(page):
        pieces = _RICH.sub("", page).split("\n")
    else:
        pieces = list(_compact_pieces(page))
    return [piece.strip() for piece in pieces if piece.strip()]


def _compact_pieces(page: str) -> Iterator[str]:
    r"""Split rows into pieces, but not product titles, which may contain brackets.

    >>> list(_compact_pieces("[G1X] Mug (2 Pack) $5.0\nsize [9 oz (red)]\nMug [New]\nPrice: $5.0"))
    ['G1X', 'Mug (2 Pack) $5.0', 'size ', '9 oz (red)', 'Mug [New]', 'Price: $5.0']
    """
    for row, below in pairwise([*page.split("\n"), ""]):
        if below.startswith("Price: "):
            yield row
        elif result := _RESULT_ROW.fullmatch(row):
            yield from result.groups()
        else:
            yield from filter(None, _IN_BRACKETS.split(row))


def read_results(observation: str) -> list[Result]:
    r"""Return the results that a page lists.

    >>> read_results("[Back to Search]\n[G0001] Red Mug $5.0 to $7.5")
    [Result(asin='G0001', title='Red Mug', price=7.5)]
    >>> read_results("size [SEP] 250 [SEP] Red Mug [SEP] Price: $5.0")
    []
    """
    pieces = visible_pieces(observation)
    results = []
    for place, asin in enumerate(pieces):
        # In some forms title and price are one text, in others two.
        title, both = pieces[place + 1 : place + 2], pieces[place + 1 : place + 3]
        found = _RESULT.fullmatch(" ".join(title)) or _RESULT.fullmatch(" ".join(both))
        if _ASIN.fullmatch(asin) and found:
            price = float(found["price"].rpartition("$")[2])
            results.append(Result(asin, " ".join(found["title"].split()), price))
    return results
