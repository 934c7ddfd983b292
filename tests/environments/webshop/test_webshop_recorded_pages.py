"""The text and rich forms against pages that others recorded in the original shop.

The labels, their order and the separators below are those of sessions that were published with
AgentBench (arXiv:2308.03688), ToolBench (arXiv:2305.16504) and the shopping sample of Google's ADK.
The products are our own, in a folder of the official format. No recorded page has a chosen option
in the rich form below its first line.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agentfly.environments.webshop import WebShop, WebShopOptions
from agentfly.environments.webshop.shop import training_tasks
from agentfly.types import Seed, Task

POT: dict[str, Any] = {
    "asin": "B0TEAPOT00",
    "name": "Kesland Teapot with Lid | Cast Iron, Round",
    "pricing": "$24.41$29.95",
    "customization_options": {
        "size": [{"value": "20 Ounce (Pack of 1)"}, {"value": "40 Ounce (Pack of 1)"}],
        "color": [{"value": "Slate"}, {"value": "Moss Green"}, {"value": "White"}],
    },
    "query": "teapots",
}
PLAIN_POTS: list[dict[str, Any]] = [
    {
        "asin": f"B0TEAPOT{number}",
        "name": f"Teapot No. {number}",
        "pricing": "$10.99",
        "query": "teapots",
    }
    for number in range(10, 69)
]
PRICES = {pot["asin"]: "$10.99" for pot in PLAIN_POTS} | {POT["asin"]: "$24.41 to $29.95"}
TITLES = {pot["asin"]: pot["name"] for pot in (POT, *PLAIN_POTS)}
ITEM_WORDS = (
    *("Back to Search", "< Prev"),
    *("size", "20 ounce (pack of 1)", "40 ounce (pack of 1)"),
    *("color", "slate", "moss green", "white"),
    *(POT["name"], "Price: $24.41 to $29.95", "Rating: N.A."),
    *("Description", "Features", "Reviews", "Buy Now"),
)
OPEN_POT = ("search[round cast iron teapot]", "click[b0teapot00]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a shop of sixty teapots, one of which is asked for."""
    made = tmp_path_factory.mktemp("teapots")
    asked = {
        "attributes": ["cast iron"],
        "instruction": "Find me cast iron teapots",
        "instruction_attributes": ["cast iron"],
    }
    (made / "items_shuffle_1000.json").write_text(json.dumps([POT, *PLAIN_POTS]))
    (made / "items_ins_v2_1000.json").write_text(json.dumps({POT["asin"]: asked}))
    return str(made)


@pytest.fixture(scope="module")
def row(folder: str) -> dict[str, Any]:
    return dict(next(iter(training_tasks(WebShopOptions(data=Path(folder))))))


def last_page(folder: str, form: str, row: dict[str, Any], *actions: str) -> str:
    shop = WebShop(data=folder, observation=form)
    page = shop.reset(Task.from_row(row), Seed(0)).observation
    for action in actions:
        page = shop.step(action).observation
    return page


def test_an_instruction_names_options_in_order_and_the_price_last(row: dict[str, Any]) -> None:
    assert re.fullmatch(
        r"Find me cast iron teapots with color: (slate|moss green|white), "
        r"and size: [24]0 ounce \(pack of 1\), and price lower than \d0\.00 dollars",
        row["instruction"],
    )


def test_search_page_as_text(folder: str, row: dict[str, Any]) -> None:
    page = last_page(folder, "text", row)
    assert page == f"WebShop [SEP] Instruction: [SEP] {row['instruction']} [SEP] Search"


@pytest.mark.parametrize(
    ("actions", "heading"),
    [
        ((), ["Page 1 (Total results: 50)", "Next >"]),
        (("click[next >]",), ["Page 2 (Total results: 50)", "< Prev", "Next >"]),
    ],
)
def test_results_page_as_text(
    folder: str, row: dict[str, Any], actions: tuple[str, ...], heading: list[str]
) -> None:
    pieces = last_page(folder, "text", row, "search[teapot]", *actions).split(" [SEP] ")
    above = ["Instruction:", row["instruction"], "Back to Search", *heading]
    assert pieces[: len(above)] == above
    results = pieces[len(above) :]
    asins = results[::3]
    assert len(set(asins)) == 10
    assert results == [text for asin in asins for text in (asin, TITLES[asin], PRICES[asin])], (
        "ten products, each with asin, title and price"
    )


@pytest.mark.parametrize("clicks", [(), ("click[moss green]",)])
def test_item_page_as_text_does_not_show_what_was_chosen(
    folder: str, row: dict[str, Any], clicks: tuple[str, ...]
) -> None:
    page = last_page(folder, "text", row, *OPEN_POT, *clicks)
    assert page == " [SEP] ".join(("Instruction:", row["instruction"], *ITEM_WORDS))


def test_search_page_in_rich_form(folder: str, row: dict[str, Any]) -> None:
    # The recorded page has an earlier name of the shop above.
    _, below = last_page(folder, "rich", row).split("\n", 1)
    assert below == f"Instruction: \n{row['instruction']}\n[button] Search [button_]\n"


def test_results_page_in_rich_form(folder: str, row: dict[str, Any]) -> None:
    page = last_page(folder, "rich", row, "search[teapot]")
    top, *results = page.split("\n\n")
    assert top == (
        f"Instruction:\n{row['instruction']}\n[button] Back to Search [button_]\n"
        "Page 1 (Total results: 50)\n[button] Next > [button_]"
    )
    asins = re.findall(r"\[button\] (B0TEAPOT\d\d) \[button_\]", page)
    assert [result.rstrip("\n") for result in results] == [
        f"[button] {asin} [button_]\n{TITLES[asin]}\n{PRICES[asin]}" for asin in asins
    ]
    assert len(asins) == 10


def test_item_page_in_rich_form_begins_with_what_was_chosen(
    folder: str, row: dict[str, Any]
) -> None:
    page = last_page(folder, "rich", row, *OPEN_POT)
    chosen = last_page(folder, "rich", row, *OPEN_POT, "click[moss green]")
    expected = (
        f"Instruction:\n{row['instruction']}\n"
        "[button] Back to Search [button_]\n[button] < Prev [button_]\n"
        "size\n  [button] 20 ounce (pack of 1) [button_]\n"
        "  [button] 40 ounce (pack of 1) [button_]\n"
        "color\n  [button] slate [button_]\n  [button] moss green [button_]\n"
        "  [button] white [button_]\n"
        f"{POT['name']}\nPrice: $24.41 to $29.95\nRating: N.A.\n"
        "[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    assert page == expected
    marked = "[clicked button] moss green [clicked button_]"
    assert chosen == "You have clicked moss green.\n" + expected.replace(
        "[button] moss green [button_]", marked
    )
