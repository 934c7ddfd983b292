"""The text and rich forms, byte for byte.

The expected pages were worked out by hand from the published pages: their texts in order, the
whole instruction on each, `Next >` even on the last page, blanks where the pages have them.
"""

import json

import pytest

from agentfly.environments.webshop import WebShop
from agentfly.types import Seed, Task

TASK = Task.from_row(
    {"id": "1", "asin": "B0001", "instruction": " Find me a mug ", "attributes": ["clay"]}
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a shop of twelve mugs, of which the first has odd texts."""
    made = tmp_path_factory.mktemp("shop")
    choices = {
        "color": [{"value": "Red"}, {"value": "Blue / Caf\u00e9"}],
        "Size": [{"value": "small"}, {"value": "color"}],
    }
    odd = {
        "asin": "B0001",
        "name": "Red  Mug\u00a0XL ",
        "pricing": "$5.00",
        "full_description": "A mug.\n\nIt  is red. ",
        "small_description": ["Dishwasher  safe", "", "\n", "Made of clay "],
        "customization_options": choices,
        "query": "mugs",
    }
    plain = [
        {"asin": f"B01{n:02}", "name": f"Mug {n}", "pricing": "$7.00$9.50", "query": "mugs"}
        for n in range(11)
    ]
    (made / "items_shuffle_1000.json").write_text(json.dumps([odd, *plain]))
    asked = {"B0001": {"attributes": ["clay"], "instruction": "Find", "instruction_attributes": []}}
    (made / "items_ins_v2_1000.json").write_text(json.dumps(asked))
    return str(made)


def pages(folder: str, form: str, *actions: str) -> list[str]:
    """Return the observation after the reset and after each action."""
    shop = WebShop(data=folder, observation=form)
    return [shop.reset(TASK, Seed(0)).observation, *(shop.step(one).observation for one in actions)]


HEAD = "Instruction: [SEP] Find me a mug [SEP] Back to Search [SEP] "


def test_the_text_form(folder: str) -> None:
    first, results, last, beyond = pages(
        folder, "text", "search[red]", "click[next >]", "click[next >]"
    )
    assert first == "WebShop [SEP] Instruction: [SEP] Find me a mug [SEP] Search"
    assert results == (
        f"{HEAD}Page 1 (Total results: 1) [SEP] Next > [SEP] "
        "B0001 [SEP] Red  Mug\u00a0XL [SEP] $5.0"
    )
    assert last == f"{HEAD}Page 2 (Total results: 1) [SEP] < Prev [SEP] Next >"
    assert beyond == f"{HEAD}Page 3 (Total results: 1) [SEP] < Prev [SEP] Next >"


def test_the_text_form_of_a_product(folder: str) -> None:
    *_, item, features, _, description, _, reviews = pages(
        folder,
        "text",
        *("search[red]", "click[b0001]", "click[features]", "click[< prev]"),
        *("click[description]", "click[< prev]", "click[reviews]"),
    )
    assert item == (
        f"{HEAD}< Prev [SEP] color [SEP] red [SEP] blue  |  caf\u00e9 [SEP] size [SEP] small [SEP] "
        "color [SEP] Red  Mug\u00a0XL [SEP] Price: $5.0 [SEP] Rating: N.A. [SEP] Description [SEP] "
        "Features [SEP] Reviews [SEP] Buy Now"
    )
    assert features == f"{HEAD}< Prev [SEP] Dishwasher  safe [SEP]  [SEP] Made of clay"
    assert description == f"{HEAD}< Prev [SEP] A mug.\n\nIt  is red."
    assert reviews == f"{HEAD}< Prev"


RICH_HEAD = "Instruction:\n Find me a mug \n[button] Back to Search [button_]\n"


def test_the_rich_form(folder: str) -> None:
    first, results, item, again = pages(
        folder, "rich", "search[red]", "click[b0001]", "click[< prev]"
    )
    assert first == "WebShop\nInstruction: \n Find me a mug \n[button] Search [button_]\n"
    top = f"{RICH_HEAD}Page 1 (Total results: 1)\n[button] Next > [button_]\n"
    assert results == f"{top}\n[button] B0001 [button_]\nRed  Mug\u00a0XL \n$5.0\n"
    assert again == (
        f"{top}\n[clicked button] B0001 [clicked button_]\nRed  Mug\u00a0XL \n$5.0\n"
    ), "results that were opened are marked"
    assert item == RICH_HEAD + (
        "[button] < Prev [button_]\ncolor\n  [button] red [button_]\n"
        "  [button] blue  |  caf\u00e9 [button_]\nsize\n  [button] small [button_]\n"
        "  [button] color [button_]\nRed  Mug\u00a0XL \nPrice: $5.0\nRating: N.A.\n"
        "[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )


def test_the_rich_form_with_clicked_options(folder: str) -> None:
    """The last option comes first; the name of a chosen option marks a value that is called so."""
    *_, page = pages(folder, "rich", "search[red]", "click[b0001]", "click[red]", "click[small]")
    assert page.startswith(
        "You have clicked color.\nYou have clicked small.\nYou have clicked red.\n" + RICH_HEAD
    )
    assert "  [clicked button] red [clicked button_]\n  [button] blue" in page
    *_, accented = pages(folder, "rich", "search[red]", "click[b0001]", "click[blue  |  caf\u00e9]")
    assert "[button] blue  |  caf\u00e9 [button_]" in accented, "JSON writes it with an escape"
    *_, features = pages(folder, "rich", "search[red]", "click[b0001]", "click[features]")
    assert features == (
        f"{RICH_HEAD}[button] < Prev [button_]\n Dishwasher  safe\n \n Made of clay \n"
    )


def test_pages_are_left_behind_at_the_search_page(folder: str) -> None:
    path = ("search[red]", "click[b0001]", "click[back to search]", "search[red]")
    assert "\n[button] B0001 [button_]\n" in pages(folder, "rich", *path)[-1]


def test_the_instruction_may_be_left_out(folder: str) -> None:
    shop = WebShop(data=folder, observation="text", repeat_instruction=False, clickables=True)
    shop.reset(TASK, Seed(0))
    shown = shop.step("search[red]").observation
    assert shown.startswith("Back to Search [SEP] Page 1")
    assert shown.splitlines()[-1].startswith("Possible: click[b0001]")
