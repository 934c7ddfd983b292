"""Folders of one's own: with a few goals, with none, and tasks that were written by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from agentfly.agents.source_parts import resolve_source
from agentfly.cli.main import app
from agentfly.config import SourceSettings
from agentfly.environments.webshop import WEBSHOP, WebShop, WebShopOptions
from agentfly.environments.webshop.shop import held_out_tasks, training_tasks
from agentfly.environments.webshop.website import shop_site
from agentfly.errors import ConfigError
from agentfly.types import Seed, Task

PRODUCTS = [
    {"asin": f"B{number}", "name": f"Mug number {number}", "pricing": "$5"} for number in range(4)
]


def asked_for(*asins: str) -> dict[str, Any]:
    request = {"instruction": "Find me a mug", "instruction_attributes": ["mug"]}
    return dict.fromkeys(asins, request)


def folder_of(folder: Path, asked: dict[str, Any], products: Any = PRODUCTS) -> Path:
    (folder / "items_shuffle.json").write_text(json.dumps(products))
    (folder / "items_ins_v2.json").write_text(json.dumps(asked))
    return folder


def test_a_few_goals_are_split_too(tmp_path: Path) -> None:
    options = WebShopOptions(data=folder_of(tmp_path, asked_for("B0", "B1", "B2")))
    trained, tested = training_tasks(options), held_out_tasks(options)
    assert len(trained) == 1
    assert len(tested) == 1
    assert trained[0]["id"] != tested[0]["id"]


def test_one_goal_is_held_out_and_training_gets_an_error(tmp_path: Path) -> None:
    options = WebShopOptions(data=folder_of(tmp_path, asked_for("B0")))
    assert len(held_out_tasks(options)) == 1
    with pytest.raises(ConfigError, match="one goal only, which is held out"):
        training_tasks(options)


def test_a_folder_without_requests_is_reported_by_tasks_and_pages(tmp_path: Path) -> None:
    options = WebShopOptions(data=folder_of(tmp_path, asked_for("B0NOTHERE")))
    with pytest.raises(ConfigError, match="none of the 4 products is asked for"):
        training_tasks(options)
    with (
        pytest.raises(ConfigError, match=r"instruction_attributes in items_ins_v2\*\.json"),
        shop_site(options),
    ):
        pass


def test_people_who_ask_for_nothing_that_is_there_are_reported(tmp_path: Path) -> None:
    folder_of(tmp_path, asked_for("B0"))
    wish = {"instruction": "a mug", "instruction_attributes": []}
    (tmp_path / "items_human_ins.json").write_text(json.dumps({"B0": [wish]}))
    with pytest.raises(ConfigError, match="no goals written by people"):
        held_out_tasks(WebShopOptions(data=tmp_path, goals="human"))


def test_products_without_words_are_reported(tmp_path: Path) -> None:
    nameless = [{"asin": "B0", "name": "The"}]
    options = WebShopOptions(data=folder_of(tmp_path, asked_for("B0"), nameless))
    with pytest.raises(ConfigError, match="none of the 1 products has a word"):
        held_out_tasks(options)


@pytest.mark.parametrize(("match", "rewarded"), [("published", False), ("values", True)])
def test_a_value_that_contains_a_color_is_missed_only_by_the_published_comparison(
    tmp_path: Path, match: str, rewarded: bool
) -> None:
    """`tailored` holds `red`, so the published reward takes it for a color."""
    mugs = [
        {"asin": f"B{n}", "name": f"Mug {n}", "customization_options": STYLES} for n in range(3)
    ]
    folder_of(tmp_path, asked_for("B0", "B1", "B2"), mugs)
    kit = WEBSHOP.make(WebShopOptions.model_validate({"data": tmp_path, "option_match": match}))
    assert kit.environment is not None
    (row,) = kit.eval_tasks()
    shop = kit.environment.make()
    shop.reset(Task.from_row(row), Seed(0))
    shop.search("mug")
    shop.click(row["asin"])
    shop.click("tailored")
    assert (shop.buy().reward == 1.0) == rewarded


STYLES = {"style": [{"value": "tailored", "asin": None, "image": None}]}


def test_the_folder_is_looked_for_beside_the_runs_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    folder_of(folder, asked_for("B0", "B1"))
    source = SourceSettings(environment="webshop", options={"data": "shop"})
    parts = resolve_source(source, base=tmp_path)
    assert parts.kit is not None
    (row,) = parts.kit.eval_tasks()
    assert parts.environment is not None
    session = parts.environment.make()
    assert session.reset(Task.from_row(row), Seed(0)).observation.startswith(
        "Instruction: Find me a mug"
    )
    json.dumps(dict(parts.environment.options))  # As they are sent to a server.
    monkeypatch.setenv("HOME", str(tmp_path))
    assert WebShopOptions(data=Path("~/shop")).data == folder


def test_a_home_that_is_not_there_is_reported() -> None:
    with pytest.raises(ValueError, match="Could not determine home directory"):
        WebShopOptions(data=Path("~nobody-of-this-name/shop"))


def test_validate_plays_tasks_written_by_hand(tmp_path: Path) -> None:
    folder_of(tmp_path, asked_for("B0"))
    row = {"id": "mine", "asin": "B2", "instruction": "a mug", "attributes": ["mug"]}
    tasks = tmp_path / "mine.jsonl"
    tasks.write_text(json.dumps(row) + "\n")
    run = CliRunner().invoke(
        app, ["validate", str(tasks), f"data={tmp_path}", "--environment", "webshop"]
    )
    assert "mine" not in run.output
    assert "tasks get full marks" in run.output
    assert run.exit_code == 0, run.output


def test_a_session_is_made_with_a_folder_as_text_or_path(tmp_path: Path) -> None:
    folder_of(tmp_path, asked_for("B0"))
    assert WebShop(data=str(tmp_path)).options == WebShop(data=tmp_path).options
    assert WEBSHOP.make(WebShopOptions(data=tmp_path)).environment is not None
