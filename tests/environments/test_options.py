"""Options of built-in environments that are lists."""

from typing import Any

import pytest
from pydantic import ValidationError

from agentfly.config import SettingsError
from agentfly.environments import find_definition, load_environment
from agentfly.environments.catalog import make_kit
from agentfly.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "key", "given", "taken"),
    [
        ("browser", "held_out", "click-link", ("click-link",)),
        ("browser", "tools", "click", ("click",)),
        ("browser", "tasks", "click-test,enter-text", ("click-test", "enter-text")),
        ("browser", "tasks", "all", "all"),
        ("alfworld", "task_types", "pick_and_place_simple", ("pick_and_place_simple",)),
        ("code", "levels", 1, (1,)),
        ("code", "levels", "1,3", (1, 3)),
        ("code", "preload", "numpy, scipy", ("numpy", "scipy")),
        ("search", "hops", 2, (2,)),
        ("scienceworld", "tasks", "find-plant,boil", ("find-plant", "boil")),
    ],
)
def test_one_value_or_several_between_commas_are_a_list(
    name: str, key: str, given: object, taken: object
) -> None:
    options: Any = find_definition(name).options
    assert getattr(options(**{key: given}), key) == taken


def test_one_allowed_address_is_a_list() -> None:
    options: Any = find_definition("browser").options
    assert options(site="own", allow="a.test").allow == ("a.test",)


@pytest.mark.parametrize(
    ("name", "key", "given"),
    [
        ("code", "levels", "4"),
        ("code", "levels", True),
        ("code", "levels", ""),
        ("browser", "tools", "clik"),
    ],
)
def test_a_value_that_a_list_does_not_take_is_refused(name: str, key: str, given: object) -> None:
    options: Any = find_definition(name).options
    with pytest.raises(ValidationError, match=key):
        options(**{key: given})


@pytest.mark.parametrize("key", ["steps", "lr", "learning_rate"])
def test_an_unknown_option_is_not_taken_for_a_setting_of_a_run(key: str) -> None:
    with pytest.raises(SettingsError, match=rf"options\.{key}: unknown key\. Known: ") as caught:
        load_environment("code", **{key: 3})
    assert "train." not in str(caught.value)


def test_a_home_of_nobody_is_named() -> None:
    file = {"tasks": "mbpp", "file": "~nobody-of-this-name/tasks.jsonl"}
    with pytest.raises(ConfigError, match=r"Write the whole path in file=~nobody-of-this-name/"):
        make_kit(find_definition("code"), file)
