import subprocess
import sys
from itertools import product as combinations

import pytest

from agentfly.environments.webshop import WebShopOptions, judge
from agentfly.environments.webshop.catalog.generated import (
    HELD_OUT,
    LEVELS,
    TRAINING,
    generate_catalog,
)
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.shop import held_out_tasks, open_shop, training_tasks
from agentfly.tasks import load_tasks

SHOPS = [
    WebShopOptions(level="easy"),
    WebShopOptions(level="medium", products=1000),
    WebShopOptions(level="hard", products=500),
]
shops = pytest.mark.parametrize("options", SHOPS, ids=lambda options: options.level)


@pytest.mark.parametrize("level", LEVELS)
def test_products_are_as_many_as_said_and_varied(level: str) -> None:
    shop = generate_catalog(level)
    assert len(shop.products) == LEVELS[level].products
    assert len({product.asin for product in shop.products}) == len(shop.products)
    kinds = 8 * LEVELS[level].kinds
    assert len({product.query for product in shop.products}) == kinds
    # Hardly two products read the same.
    assert len({product.title for product in shop.products}) > 0.8 * len(shop.products)


@shops
def test_held_out_goals_share_neither_product_nor_wording(options: WebShopOptions) -> None:
    train, held_out = training_tasks(options), held_out_tasks(options)
    assert not {row["asin"] for row in train} & {row["asin"] for row in held_out}
    assert not {row["id"] for row in train} & {row["id"] for row in held_out}
    assert not {row["instruction"] for row in train} & {row["instruction"] for row in held_out}
    assert not set(TRAINING) & set(HELD_OUT)
    beginnings = {template.split("{")[0] for template in TRAINING}
    assert all(row["instruction"].startswith(tuple(beginnings)) for row in train)
    assert not any(row["instruction"].startswith(tuple(beginnings)) for row in held_out)
    assert len(held_out) > 100
    # All kinds of things are asked for in both.
    shop = open_shop(options)
    things = {product.query for product in shop.catalog.products}
    for rows in (train, held_out):
        assert {shop.product(row["asin"]).query for row in rows} == things


def test_brands_are_held_out_too() -> None:
    shop = generate_catalog("medium")
    brands: dict[bool, set[str]] = {True: set(), False: set()}
    for product in shop.products:
        brands[product.asin in shop.held_out].add(product.title.split()[0])
    assert brands[True]
    assert not brands[True] & brands[False]


@shops
def test_the_gold_purchase_of_every_goal_is_worth_one(options: WebShopOptions) -> None:
    shop = open_shop(options)
    for goal in (*shop.goals.train, *shop.goals.test):
        product = shop.product(goal.asin)
        assert judge(product, goal.options, goal, product).reward == 1.0, goal


@pytest.mark.parametrize("level", LEVELS)
def test_options_of_a_product_can_all_be_clicked(level: str) -> None:
    buttons = {label.lower() for label in Label}
    for product in generate_catalog(level).products:
        values = [value for _, values in product.options for value in values]
        assert len(set(values)) == len(values)
        assert not buttons & set(values)
        assert all(value == value.lower().strip() for value in values)


def test_rows_are_tasks() -> None:
    tasks = load_tasks(training_tasks(WebShopOptions(level="easy")))
    assert tasks[0].messages == ()  # The shop speaks first.
    assert len({task.id for task in tasks}) == len(tasks)


def test_products_and_levels_can_be_chosen() -> None:
    assert len(generate_catalog("hard", 40).products) == 40
    smaller = [p.title for p in generate_catalog("easy", 40).products]
    assert smaller == [p.title for p in generate_catalog("easy").products][:40]


def test_every_process_makes_the_same_shop() -> None:
    code = (
        "from agentfly.environments.webshop.catalog.generated import generate_catalog\n"
        "for p in generate_catalog('hard', 100).products:\n"
        "    print((p.title, p.price, p.options, p.features))"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = generate_catalog("hard", 100).products
    assert elsewhere.splitlines() == [str((p.title, p.price, p.options, p.features)) for p in here]


def test_goals_are_of_every_combination() -> None:
    shop = open_shop(WebShopOptions(level="easy"))
    product = shop.catalog.products[0]
    wanted = set(combinations(*(values for _, values in sorted(product.options))))
    goals = [goal for goal in shop.goals.train if goal.asin == product.asin]
    assert {goal.options for goal in goals} == wanted
