import re
from collections import Counter

import pytest

from agentfly.environments.webshop import Goal, judge
from agentfly.environments.webshop.catalog import Catalog, Product, Request
from agentfly.environments.webshop.goal import (
    human_goals,
    price_limit,
    split_goals,
    written_goals,
)
from agentfly.errors import ConfigError

MUG = Product(
    asin="G1",
    title="Mug",
    price=12.0,
    options=(("size", ("s", "m")), ("color", ("red", "blue", "green"))),
)
PLATE = Product(asin="G2", title="Plate", price=985.0)
SHOP = Catalog(
    products=(MUG, PLATE),
    requests={
        "G1": Request(instruction="Find me big mugs", attributes=("big", "round")),
        "G2": Request(instruction="Find me plates", attributes=("round",)),
    },
    human_requests={
        "G1": (
            Request(instruction="a mug please", attributes=("big",), options=("red",)),
            Request(instruction="any mug", attributes=("big",), options=()),
        )
    },
)


def test_a_request_becomes_a_goal_for_every_combination_of_options() -> None:
    goals = [goal for goal in written_goals(SHOP) if goal.asin == "G1"]
    assert len(goals) == 6
    assert len({goal.id for goal in goals}) == 6
    upper = goals[0].price_upper
    assert upper is not None
    # Options by name, so that color comes before size.
    assert goals[0].instruction == (
        f"Find me big mugs with color: red, and size: s, and price lower than {upper:.2f} dollars"
    )
    assert goals[0].options == ("red", "s")


def test_without_options_and_limit_the_instruction_is_left_as_it_is() -> None:
    (goal,) = (goal for goal in written_goals(SHOP) if goal.asin == "G2")
    assert goal.instruction == "Find me plates"
    assert goal.options == ()
    assert goal.price_upper is None


def test_an_option_without_values_can_not_be_chosen_and_so_not_be_asked_for() -> None:
    lone = Product(asin="G3", title="Cup", options=(("size", ()),))
    request = Request(instruction="Find me cups", attributes=("rare",))
    catalog = Catalog(products=(*SHOP.products, lone), requests={**SHOP.requests, "G3": request})
    assert written_goals(catalog) == written_goals(SHOP)


def test_weights_are_the_mean_of_one_over_the_count() -> None:
    # big is in 6 goals, round in 7: (1/6 + 1/7) / 2 = 13/84, and 1/7.
    weights = {goal.asin: goal.weight for goal in written_goals(SHOP)}
    assert weights == {"G1": pytest.approx(13 / 84), "G2": pytest.approx(1 / 7)}


def test_human_goals_are_one_for_each_request() -> None:
    first, second = human_goals(SHOP)
    assert first.options == ("red",)
    assert first.instruction.startswith("a mug please, and price lower than ")
    assert second.weight == 1.0
    assert first.id != second.id


def test_limits_are_the_larger_of_two_of_the_next_four_tens() -> None:
    # Above 12: 20, 30, 40, 50. The larger of two is never 20, and 50 in half of all pairs.
    drawn = Counter(
        price_limit(Product(asin=f"G{number}", title="Mug", price=12.0)) for number in range(3000)
    )
    assert set(drawn) == {30.0, 40.0, 50.0}
    assert drawn[50.0] / 3000 == pytest.approx(3 / 6, abs=0.04)
    assert drawn[30.0] / 3000 == pytest.approx(1 / 6, abs=0.04)
    # A price that is a ten is not above itself; only 980 and 990 are left above 970.
    assert price_limit(Product(asin="G1", title="", price=970.0)) == 990.0
    assert price_limit(Product(asin="G1", title="", price=980.0)) is None


def numbered_goals(count: int) -> list[Goal]:
    return [Goal(id=str(n), asin="G1", instruction="", attributes=()) for n in range(count)]


def test_the_published_split() -> None:
    split = split_goals(numbered_goals(6910))
    assert (len(split.test), len(split.dev), len(split.train)) == (500, 1000, 5410)
    assert {g.id for part in (split.test, split.dev, split.train) for g in part} == {
        str(n) for n in range(6910)
    }
    # What `random.seed(233); random.shuffle(list(range(6910)))` puts first.
    assert [goal.id for goal in split.test[:3]] == ["3963", "2638", "2193"]


@pytest.mark.parametrize(
    ("count", "parts"),
    [
        (3000, (500, 1000, 1500)),
        (2999, (499, 999, 1501)),
        (1500, (250, 500, 750)),
        (5, (1, 1, 3)),
        (2, (1, 0, 1)),
        (1, (1, 0, 0)),
    ],
)
def test_half_of_a_few_goals_are_for_training(count: int, parts: tuple[int, int, int]) -> None:
    split = split_goals(numbered_goals(count))
    assert (len(split.test), len(split.dev), len(split.train)) == parts


def test_a_row_of_ones_own_needs_its_fields() -> None:
    row = {"asin": "G1", "instruction": "a mug", "attributes": ["big"]}
    assert Goal.from_row(row).price_upper is None
    assert Goal.from_row({**row, "price_upper": 20}).price_upper == 20.0
    with pytest.raises(ConfigError, match="options of a WebShop task is a list of texts"):
        Goal.from_row({**row, "options": "red"})
    with pytest.raises(ConfigError, match="it lacks instruction, attributes"):
        Goal.from_row({"asin": "G1"})


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("options", None, "options of a WebShop task is a list of texts, got None"),
        ("options", ["red", 3], "list of texts, got \\['red', 3\\]"),
        ("attributes", {"big": True}, "attributes of a WebShop task is a list of texts"),
        ("price_upper", "cheap", "price_upper of a WebShop task is a number.*got 'cheap'"),
        ("price_upper", True, "price_upper of a WebShop task is a number.*got True"),
        ("price_upper", float("nan"), "price_upper of a WebShop task is a number.*got nan"),
    ],
)
def test_a_field_of_another_kind_is_reported(field: str, value: object, problem: str) -> None:
    row = {"asin": "G1", "instruction": "a mug", "attributes": ["big"], field: value}
    with pytest.raises(ConfigError, match=problem):
        Goal.from_row(row)


def test_the_official_goals(official: Catalog, official_products: dict[str, Product]) -> None:
    goals = written_goals(official)
    assert len(goals) == 6910
    assert len({goal.id for goal in goals}) == 6910
    split = split_goals(goals)
    assert (len(split.test), len(split.dev), len(split.train)) == (500, 1000, 5410)
    for goal in goals:
        product = official_products[goal.asin]
        assert goal.price_upper is None or product.price < goal.price_upper
        assert re.match(r"Find me ", goal.instruction)


def test_the_gold_purchase_of_every_official_goal_is_worth_one(
    official: Catalog, official_products: dict[str, Product]
) -> None:
    for goal in written_goals(official):
        product = official_products[goal.asin]
        assert judge(product, goal.options, goal, product, option_match="values").reward == 1.0, (
            goal
        )
