"""The word lists of the generated shop: what may change in them, and what may not."""

import re
from itertools import combinations

import pytest

from agentfly.environments.webshop.catalog.departments import DEPARTMENTS, Department
from agentfly.environments.webshop.catalog.generated import LEVELS, generate_catalog
from agentfly.environments.webshop.placeholder_picture import picture
from agentfly.environments.webshop.purchase import SIMILAR_ABOVE
from agentfly.environments.webshop.text_match import similarity

departments = pytest.mark.parametrize("department", DEPARTMENTS, ids=lambda one: one.path)

SHAPES = {
    "Home › Furniture": ((6, 8, 12), {"color": 6, "size": 4, "material": 5}, (40, 480)),
    "Home › Kitchen": ((6, 8, 12), {"color": 12, "size": 5, "style": 4}, (8, 90)),
    "Home › Bedding": ((6, 8, 12), {"color": 12, "size": 5, "pattern": 5}, (12, 140)),
    "Fashion › Clothing": ((6, 8, 12), {"color": 12, "size": 6, "fit": 4}, (15, 120)),
    "Fashion › Shoes": ((6, 8, 12), {"color": 12, "size": 6, "width": 3}, (18, 160)),
    "Beauty › Care": ((6, 8, 12), {"scent": 6, "size": 4, "pack": 3}, (4, 60)),
    "Electronics › Accessories": ((6, 8, 12), {"color": 6, "length": 3, "style": 3}, (9, 210)),
    "Grocery › Snacks": ((6, 8, 12), {"flavor": 6, "size": 4, "pack": 3}, (3, 45)),
}
"""Numbers of kinds, styles and attributes; of values by option, in order; prices."""


def test_lists_keep_their_lengths() -> None:
    """With other lengths, all products, goals and splits would be drawn differently."""
    found = [
        (
            one.path,
            (len(one.kinds), len(one.styles), len(one.attributes)),
            [(name, len(values)) for name, values in one.options.items()],
            one.prices,
        )
        for one in DEPARTMENTS
    ]
    assert found == [
        (path, words, list(values.items()), prices)
        for path, (words, values, prices) in SHAPES.items()
    ]


def test_kinds_and_attributes_are_distinct_in_the_whole_shop() -> None:
    for name in ("kinds", "attributes"):
        words = [word for one in DEPARTMENTS for word in getattr(one, name)]
        assert len(set(words)) == len(words)


@departments
def test_words_of_a_department_are_distinct(department: Department) -> None:
    values = [value for values in department.options.values() for value in values]
    for words in (department.styles, values):
        assert len(set(words)) == len(words)


@departments
def test_no_attribute_counts_as_another(department: Department) -> None:
    for one, other in combinations(department.attributes, 2):
        assert similarity(one, other) <= SIMILAR_ABOVE, (one, other)


@departments
def test_descriptions_need_no_an(department: Department) -> None:
    """They begin with `A`, the style and the kind."""
    assert not [style for style in department.styles if style[0] in "AEIOU"]


def shape(title: str) -> str:
    found = re.search(r'<path d="([^"]+)"', picture("G0000", title))
    assert found is not None
    return found.group(1)


@pytest.mark.parametrize("level", LEVELS)
def test_pictures_are_of_the_kind_for_every_title(level: str) -> None:
    parcel = shape("something else")
    for product in generate_catalog(level, 1000).products:
        kind = product.query.removesuffix("s")
        assert shape(product.title) == shape(kind) != parcel, product.title


def test_pictures_of_similar_names_differ() -> None:
    names = ("Dresser", "Dress", "Side Table", "Tablet Charger", "Phone", "Tea Cup", "Tea Bag")
    assert len({shape(name) for name in names}) == len(names)
