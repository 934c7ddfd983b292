"""Players read the same from every form of a page, also with brackets in products' texts."""

from collections.abc import Callable

import pytest

from agentfly.environments.webshop.catalog import Catalog, Product
from agentfly.environments.webshop.page import Page, item_page, results_page
from agentfly.environments.webshop.page_forms import Chosen, Marks, as_compact, as_rich, as_text
from agentfly.environments.webshop.page_reader import Result, read_results, visible_pieces

FORMS: dict[str, Callable[[Page, Chosen], str]] = {
    "compact": as_compact,
    "text": lambda page, chosen: as_text(page),
    "rich": lambda page, chosen: as_rich(page, Marks(chosen)),
}
TITLES = ("Mug (Red)", "[2 Pack] Mug", "Mug (a) [b] Set", "Mug :) (9", "Mug", "(Mug) $3 off")
VALUES = ("9 oz (pack of 2)", "(9 oz)", "9 oz [new]", "9 oz :)", "9 oz")


def product(number: int, title: str) -> Product:
    return Product(
        asin=f"B{number:03}", title=title, price_tag="$5.0 to $7.5", options=(("size", VALUES),)
    )


PRODUCTS = [product(number, title) for number, title in enumerate(TITLES)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("after", ["", "\nPossible: click[back to search], click[b000]"])
def test_results_are_read_whatever_their_titles_hold(form: str, after: str) -> None:
    shown = FORMS[form](results_page(PRODUCTS, 1, 10), ()) + after
    assert read_results(shown) == [Result(one.asin, one.title, 7.5) for one in PRODUCTS]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chosen", VALUES)
@pytest.mark.parametrize("title", TITLES)
def test_an_item_is_read_whatever_its_title_and_values_hold(
    form: str, chosen: str, title: str
) -> None:
    shown = FORMS[form](item_page(product(0, title)), (("size", chosen),))
    pieces = visible_pieces(shown)
    start = pieces.index("size")
    assert pieces[start : start + 7] == ["size", *VALUES, title]


def test_official_products_are_read_alike_in_all_forms(official: Catalog) -> None:
    listed = list(official.products)
    for start in range(0, len(listed), 50):
        page = results_page(listed[start : start + 50], 1, 50)
        read = {form: read_results(show(page, ())) for form, show in FORMS.items()}
        assert len(read["text"]) == 50
        assert read["compact"] == read["text"] == read["rich"]
