"""The shop as a site, from official files: the goals and the reward of the text version."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from tests.environments.kit_play import play

from agentfly.environments.browser import BROWSER, BrowserOptions
from agentfly.environments.browser.site import PageRequest, PageView
from agentfly.environments.browser.sites import make_site
from agentfly.environments.browser.tasks import held_out_rows, training_rows

pytest.importorskip("bm25s")

STYLES = {"style": [{"value": "tailored", "asin": None, "image": None}]}
"""An option that holds the color `red`: the published reward takes it for that."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write files of 24 mugs with a request each, four of them by people too."""
    asins = [f"B{number:09}" for number in range(24)]
    mugs = [
        {"asin": asin, "name": f"Mug {asin}", "pricing": "$5", "customization_options": STYLES}
        for asin in asins
    ]
    wish = {"instruction": "Find me a mug", "instruction_attributes": ["mug"]}
    human = {
        "instruction": "i want a cup",
        "instruction_attributes": ["mug"],
        "instruction_options": [],
    }
    files: Mapping[str, object] = {
        "items_shuffle.json": mugs,
        "items_ins_v2.json": dict.fromkeys(asins, wish),
        "items_human_ins.json": {asin: [human] for asin in asins[:4]},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


async def buy_tailored(row: Mapping[str, Any], options: BrowserOptions) -> float:
    """Buy the product of a row by its pages' forms; return the reward."""
    site = make_site(row, options)
    actions = [f"click[{label}]" for label in (row["asin"], "tailored", "Buy Now")]
    for form in ({"query": str(row["name"])}, *({"action": action} for action in actions)):
        site.respond(PageRequest(url=site.start, method="POST", body=urlencode(form)))
    outcome = await site.check(cast("PageView", None))
    assert outcome.done
    return outcome.reward


async def test_goals_and_rewards_of_official_files(folder: Path) -> None:
    from agentfly.environments.webshop import WebShopOptions
    from agentfly.environments.webshop.shop import held_out_tasks, training_tasks

    options = BrowserOptions(site="webshop", data=folder)
    text = WebShopOptions(data=folder)
    trained, held_out = training_rows(options), held_out_rows(options)
    assert [row["id"] for row in trained] == [row["id"] for row in training_tasks(text)]
    assert [row["id"] for row in held_out] == [row["id"] for row in held_out_tasks(text)]
    assert "Find me a mug" in held_out[0]["instruction"]
    assert await buy_tailored(held_out[0], options) < 1.0
    by_value = options.model_copy(update={"option_match": "values"})
    assert await buy_tailored(held_out[0], by_value) == 1.0
    (row,) = held_out_rows(BrowserOptions(site="webshop", data=folder, goals="human"))
    assert "i want a cup" in row["instruction"]
    fewer = BrowserOptions(site="webshop", data=folder, products=10)
    assert len(training_rows(fewer)) < len(trained)


@pytest.mark.browser
async def test_the_expert_shops_in_official_files_as_in_the_text_version(folder: Path) -> None:
    from agentfly.environments.webshop import WEBSHOP, WebShopOptions

    kit = BROWSER.make(BrowserOptions(site="webshop", data=folder, option_match="values"))
    text = WEBSHOP.make(WebShopOptions(data=folder, option_match="values", max_turns=60))
    row, written = next(iter(kit.eval_tasks())), next(iter(text.eval_tasks()))
    in_browser = await play(kit, row, kit.expert)
    assert in_browser.reward == (await play(text, written, text.expert)).reward
    assert in_browser.reward
