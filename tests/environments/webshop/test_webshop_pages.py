"""Pages, clicks and what the agent reads, in a shop of a dozen products."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentfly.environments.webshop import WebShop
from agentfly.errors import ConfigError, EnvError
from agentfly.testing import check_environment
from agentfly.types import EnvSpec, Seed, Task

MUG = {
    "asin": "B0001",
    "name": "Red Mug",
    "full_description": "It holds\n tea.",
    "pricing": "$5.00",
    "small_description": ["Dishwasher safe", "", "Made of clay"],
    "customization_options": {
        "Color": [{"value": "red"}, {"value": "Blue"}],
        "Size": [{"value": "small"}, {"value": "large"}, {"value": "description"}],
    },
    "query": "mugs",
}
OTHERS = [
    {"asin": f"B01{number:02d}", "name": f"Plain mug {number}", "pricing": "$9"}
    for number in range(11)
]
TASK = Task.from_row(
    {
        "id": "mug",
        "asin": "B0001",
        "instruction": "Find me a red mug",
        "attributes": ["dishwasher safe"],
        "options": ["red", "small"],
        "price_upper": 10.0,
    }
)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "items_shuffle.json").write_text(json.dumps([MUG, *OTHERS]))
    (tmp_path / "items_ins_v2.json").write_text(
        json.dumps({"B0001": {"attributes": ["dishwasher safe"]}})
    )
    return str(tmp_path)


def session(folder: str, *actions: str, **choices: Any) -> WebShop:
    shop = WebShop(data=folder, **choices)
    shop.reset(TASK, Seed(0))
    for action in actions:
        assert not shop.step(action).invalid, action
    return shop


TO_MUG = ("search[red mug]", "click[B0001]")


def test_the_session_from_search_to_purchase(folder: str) -> None:
    shop = WebShop(data=folder)
    assert shop.reset(TASK, Seed(0)).observation == "Instruction: Find me a red mug\nSearch"
    results = shop.step("search[red mug]").observation.splitlines()
    assert results[0] == "[Back to Search] [Next >]"
    assert results[1] == "Page 1 (Total results: 12)"
    assert results[2] == "[B0001] Red Mug $5.0"
    assert len(results) == 12
    assert shop.step("click[B0001]").observation == (
        "[Back to Search] [< Prev]\n"
        "color [red] [blue]\n"
        "size [small] [large] [description]\n"
        "Red Mug\n"
        "Price: $5.0 Rating: N.A.\n"
        "[Description] [Features] [Reviews]\n"
        "[Buy Now]"
    )
    assert "color (red) [blue]" in shop.step("click[red]").observation
    assert "size (small)" in shop.step("click[small]").observation
    bought = shop.step("click[Buy Now]")
    assert bought.done
    assert bought.reward == 1.0
    assert bought.info["chosen"] == {"color": "red", "size": "small"}
    assert shop.verdict is not None


def test_what_can_be_clicked_is_listed_if_wished(folder: str) -> None:
    shop = session(folder, clickables=True, page_size=2)
    assert shop.step("search[red mug]").observation.splitlines()[-1] == (
        "Possible: click[b0001], click[b0100], click[back to search], click[next >]"
    )
    assert shop.step("click[back to search]").observation.endswith("Possible: search[words]")


@pytest.mark.parametrize("label", ["Blue", "[blue]", "click[blue]", " [BLUE] ", "(blue)"])
def test_a_label_can_be_written_as_it_is_shown(folder: str, label: str) -> None:
    shop = session(folder, *TO_MUG)
    assert "(blue)" in shop.click(label).observation


@pytest.mark.parametrize("label", ["[blue", "click[]", "[]", "((blue))", "click[click[blue]]"])
def test_brackets_alone_make_no_label(folder: str, label: str) -> None:
    shop = session(folder, *TO_MUG)
    assert shop.click(label).invalid


def test_pages_of_results(folder: str) -> None:
    shop = session(folder, "search[mug]", page_size=5)
    assert shop.step("click[next >]").observation.splitlines()[:2] == [
        "[Back to Search] [< Prev] [Next >]",
        "Page 2 (Total results: 12)",
    ]
    last = shop.step("click[next >]").observation.splitlines()
    assert last[0] == "[Back to Search] [< Prev]"
    assert len(last) == 2 + 2
    assert shop.step("click[next >]").invalid
    assert "Page 2" in shop.step("click[< Prev]").observation


def test_from_a_product_back_to_the_page_it_was_found_on(folder: str) -> None:
    shop = session(folder, "search[mug]", "click[next >]", page_size=5)
    asin = next(label for label in shop.page.clickables if label.startswith("b01"))
    shop.step(f"click[{asin}]")
    assert "Page 2" in shop.step("click[< prev]").observation


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ("description", "It holds tea."),
        ("features", "Dishwasher safe\nMade of clay"),
        ("reviews", "No Reviews"),
    ],
)
def test_further_pages_keep_what_is_chosen(folder: str, detail: str, text: str) -> None:
    shop = session(folder, *TO_MUG, "click[red]")
    assert shop.step(f"click[{detail}]").observation == f"[Back to Search] [< Prev]\n{text}"
    assert "(red)" in shop.step("click[< prev]").observation


def test_a_button_wins_over_an_option_of_its_name(folder: str) -> None:
    shop = session(folder, *TO_MUG)
    assert "It holds tea." in shop.step("click[description]").observation


def test_another_value_of_an_option_replaces_the_first(folder: str) -> None:
    shop = session(folder, *TO_MUG, "click[red]", "click[blue]")
    assert shop.step("click[buy now]").info["chosen"] == {"color": "blue"}


def test_leaving_a_product_forgets_what_was_chosen(folder: str) -> None:
    shop = session(folder, *TO_MUG, "click[red]", "click[< prev]", "click[b0001]")
    assert shop.step("click[buy now]").info["chosen"] == {}
    shop = session(folder, *TO_MUG, "click[red]", "click[back to search]", *TO_MUG)
    assert shop.step("click[buy now]").info["chosen"] == {}


@pytest.mark.parametrize(
    ("before", "action", "says"),
    [
        ((), "click[buy now]", "There is no 'buy now' to click on this page."),
        ((), "click[search]", "There is no 'search' to click on this page."),
        ((), "search[]", "Search for some words."),
        ((), "search[ \n ]", "Search for some words."),
        ((), "buy the mug", "An action is search[words] or click[label]."),
        ((), "", "An action is search[words] or click[label]."),
        (TO_MUG[:1], "search[mug]", "There is no search box on this page."),
        (TO_MUG[:1], "click[B9999]", "There is no 'b9999' to click on this page."),
        (TO_MUG, "click[green]", "There is no 'green' to click on this page."),
    ],
)
def test_an_impossible_action_changes_nothing_and_says_what_is_possible(
    folder: str, before: tuple[str, ...], action: str, says: str
) -> None:
    shop = session(folder, *before)
    location, page = shop.location, shop.page
    step = shop.step(action)
    assert step.observation == f"{says} Possible: {', '.join(page.actions)}"
    assert (shop.location, shop.page, shop.verdict) == (location, page, None)
    assert not step.done
    assert step.state_key == location.key


def test_a_query_of_a_megabyte_is_refused_in_few_words(folder: str) -> None:
    shop = session(folder)
    for query in ("x" * 1_000_000, "mug " * 250_000):
        step = shop.step(f"search[{query}]")
        assert step.observation.startswith("A query has at most 2000 characters, not ")
        assert len(step.observation) < 200
    assert len(shop.step(f"click[{'x' * 1_000_000}]").observation) < 300
    assert len(shop.step("[" * 1_000_000).observation) < 300


def test_after_the_purchase_nothing_happens_any_more(folder: str) -> None:
    shop = session(folder, *TO_MUG)
    bought = shop.step("click[buy now]")
    for action in ("click[buy now]", "search[mug]", "click[back to search]", "nonsense"):
        step = shop.step(action)
        assert step.done
        assert step.reward is None
        assert step.observation == "The purchase is made and the session has ended."
    assert shop.verdict is not None
    assert shop.verdict.reward == bought.reward


def test_states_have_equal_keys_only_if_they_are_equal(folder: str) -> None:
    one = session(folder, *TO_MUG, "click[red]", "click[small]")
    other = session(folder, *TO_MUG, "click[small]", "click[blue]", "click[red]")
    assert one.location.key == other.location.key
    third = session(folder, *TO_MUG, "click[red]")
    assert one.location.key != third.location.key
    assert third.location.key != session(folder, *TO_MUG).location.key
    assert (
        session(folder, "search[red mug]", "click[next >]").location.key
        != session(folder, "search[red mug]").location.key
    )


def test_sessions_of_the_same_choices_share_everything_but_their_state(folder: str) -> None:
    one, other = session(folder, *TO_MUG), session(folder, *TO_MUG)
    assert one.page is other.page
    one.step("click[red]")
    assert other.location != one.location


def test_a_task_of_another_catalog_is_a_mistake(folder: str) -> None:
    row = {**TASK.fields, "asin": "B0NOTHERE"}
    with pytest.raises(ConfigError, match="no product 'B0NOTHERE' among its 12"):
        WebShop(data=folder).reset(Task.from_row(row), Seed(0))


def test_a_session_begins_with_reset(folder: str) -> None:
    with pytest.raises(EnvError, match="call reset"):
        WebShop(data=folder).step("search[mug]")


async def test_it_keeps_the_contract_of_environments(folder: str) -> None:
    actions = [*TO_MUG, "click[nothing]", "click[red]", "click[buy now]"]
    await check_environment(EnvSpec(WebShop, (("data", folder),)), TASK, actions)
