from typing import Any

import pytest

from agentfly.config import load_settings
from agentfly.config.override import override

FILE = {"name": "sums", "model": {"name": "tiny"}, "source": [{"tasks": "a.jsonl"}]}


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("train.lr=1e-5", "train.lr", 1e-5),
        ("train.lr = 3", "train.lr", 3.0),
        ("train.steps=1_000", "train.steps", 1000),
        ("train.target_reward=0.9", "train.target_reward", 0.9),
        ("deterministic=true", "deterministic", True),
        ("name=7", "name", "7"),
        ("name=2026-01-01", "name", "2026-01-01"),
        ("name='seven'", "name", "seven"),
        ("source.0.name=true", "source.0.name", "true"),
        ("source.0.system_prompt=Say x=1.", "source.0.system_prompt", "Say x=1."),
        ('source.0.system_prompt="a\\nb"', "source.0.system_prompt", "a\nb"),
        ("source.0.tasks=data/b.jsonl", "source.0.tasks", "data/b.jsonl"),
        ("source.0.tools=['calculator']", "source.0.tools", ("calculator",)),
        ("train.betas=[0.8, 0.9]", "train.betas", (0.8, 0.9)),
        ("train={steps=4}", "train.steps", 4),
        ("model.lora.rank=4", "model.lora.rank", 4),
        ("train.schedule=cosine", "train.schedule", "cosine"),
    ],
)
def test_a_value_is_read_as_it_was_meant(text: str, path: str, value: object) -> None:
    found: Any = load_settings(FILE, [text])
    for part in path.split("."):
        found = found[int(part)] if part.isdecimal() else getattr(found, part)
    assert found == value
    assert type(found) is type(value)


def test_a_plugins_own_keys_take_toml_values_and_bare_words() -> None:
    changes = ["algorithm.kl.place=loss", "algorithm.kl.size=1.5", "algorithm.on=false"]
    assert override(FILE, changes).data["algorithm"] == {
        "kl": {"place": "loss", "size": 1.5},
        "on": False,
    }


def test_entries_of_a_list_are_changed_and_added_in_order() -> None:
    changes = ["source.0.weight=2", "source.1.tasks=b.jsonl", "source.1.name=second"]
    first, second = load_settings(FILE, changes).source
    assert (first.tasks, first.weight) == ("a.jsonl", 2.0)
    assert (second.tasks, second.name) == ("b.jsonl", "second")
    bare = {"name": "x", "model": {"name": "tiny"}}
    assert load_settings(bare, ["source.0.tasks=c.jsonl"]).source[0].tasks == "c.jsonl"
    tools = override(FILE, ["source.0.tools.0=finish", "source.0.tools.1=answer"])
    assert tools.data["source"][0]["tools"] == ["finish", "answer"]


def test_the_later_override_stays() -> None:
    assert load_settings(FILE, ["train.steps=1", "train.steps=2"]).train.steps == 2


def test_a_value_cannot_smuggle_in_other_keys() -> None:
    assert override({}, ["train.x=1\nother = 2"]).data == {"train": {"x": "1\nother = 2"}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps", "steps: an override is written key=value, such as train.lr=1e-5"),
        ("=3", "=3: an override is written key=value"),
        ("name.x=1", "name.x: name is no table, but 'sums', so nothing can be inside of it"),
        ("source.2.tasks=b", "source.2.tasks: source has 1 entries, which are counted from 0, and"),
        ("source.tasks=b", "source.tasks: source has 1 entries, which are counted from 0, and 'ta"),
        ("source.x.tasks=b", "source.x.tasks: source has 1 entries, which are counted from 0, and"),
        ("source.0.tools=[finish]", "source.0.tools: [finish] is not a TOML value. Texts inside"),
        ("train={lr=}", "train: {lr=} is not a TOML value"),
        ("name='x", "name: 'x is not a TOML value"),
    ],
)
def test_an_override_without_a_place_is_a_problem(text: str, said: str) -> None:
    found = override(FILE, [text])
    assert [str(problem)[: len(said)] for problem in found.problems] == [said]
    assert override(FILE, []).data == FILE
