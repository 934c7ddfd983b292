import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.config import (
    AlgorithmSettings,
    CheckpointSettings,
    EvalSettings,
    LoraSettings,
    ModelSettings,
    RolloutSettings,
    RunSettings,
    SourceSettings,
    TrackSettings,
    TrainSettings,
    load_settings,
    to_toml,
)
from agentfly.errors import ConfigError

texts = st.text(st.characters(exclude_categories=["Cs"]))
"""Any characters but halves of surrogate pairs, which no UTF-8 file can hold."""
names = st.from_regex(r"([A-Za-z0-9äß'][A-Za-z0-9äß' -]{0,7})?[a-z]", fullmatch=True)
positive = st.floats(min_value=1e-12, max_value=1e300)
counts = st.integers(min_value=1)

values: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
option_names = texts.filter(lambda text: text not in ("name", "model_config"))


@st.composite
def algorithms(draw: st.DrawFn) -> AlgorithmSettings:
    options = draw(st.dictionaries(option_names, values, max_size=3))
    return AlgorithmSettings.model_validate({"name": draw(texts), **options})


loras = st.builds(LoraSettings, rank=counts, alpha=positive, targets=st.none() | st.tuples(texts))
models = st.builds(ModelSettings, name=texts, lora=st.none() | loras)
trains = st.builds(
    TrainSettings,
    steps=counts,
    lr=st.just(0.0) | positive,
    schedule=st.sampled_from(["constant", "cosine"]),
    betas=st.tuples(*[st.floats(min_value=0, max_value=1, exclude_max=True)] * 2),
    target_reward=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)
sources = st.lists(
    st.builds(
        SourceSettings,
        name=texts.filter(bool),
        tasks=texts,
        weight=positive,
        tools=st.lists(texts, max_size=3),
        system_prompt=st.none() | texts,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda source: source.name,
)
runs = st.builds(
    RunSettings,
    name=names,
    folder=st.from_regex(r"[a-z.\\ /\"']{0,9}", fullmatch=True),
    seed=st.integers(min_value=0),
    deterministic=st.booleans(),
    model=models,
    algorithm=algorithms(),
    rollout=st.builds(RolloutSettings, chain_seconds=positive, mask=texts),
    train=trains,
    eval=st.builds(EvalSettings, every=st.integers(min_value=0), at_end=st.booleans()),
    checkpoint=st.builds(CheckpointSettings, keep=counts),
    track=st.builds(TrackSettings, trackers=st.sampled_from([(), ("wandb", "mlflow")])),
    source=sources,
)


@settings(max_examples=40)
@given(runs)
def test_reading_what_was_written_gives_the_same_settings(run: RunSettings) -> None:
    text = to_toml(run)
    assert load_settings(text) == run
    assert to_toml(load_settings(text)) == text


def small(**changes: Any) -> RunSettings:
    tables = {"name": "x", "model": {"name": "tiny"}, "source": [{"tasks": "a"}]}
    return RunSettings.model_validate({**tables, **changes})


def test_every_setting_is_there_with_its_meaning_or_as_not_set() -> None:
    text = to_toml(small())
    tables = tomllib.loads(text)
    for name, value in small():
        if name not in ("model", "source") and value is not None:
            written = set(tables[name]) if isinstance(tables[name], dict) else set()
            unset = {key for key in getattr(type(value), "model_fields", ()) if key not in written}
            assert all(f"\n# {key} is not set\n" in text for key in unset)
    assert "\n# Weight decay of AdamW.\nweight_decay = 0.0\n" in text
    assert "\n# Optimizer, schedule and batch sizes.\n[train]\n" in text
    assert "\n# lora is not set\n" in text
    assert "\n# cluster is not set\n" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_prompt_of_several_lines_stays_readable() -> None:
    text = to_toml(small(source=[{"tasks": "a", "system_prompt": 'Say "hi".\nThen go.'}]))
    assert 'system_prompt = """\nSay "hi".\nThen go."""\n' in text


@pytest.mark.parametrize(
    "prompt",
    [
        "one\r\ntwo",
        "\n\none",
        'ends with "quotes"\n"""',
        "tab\tand \\ and \x7f\n",
        "\r",
        '"""\n\\"',
    ],
)
def test_line_ends_and_quotes_of_a_text_are_kept(prompt: str) -> None:
    run = small(source=[{"tasks": "a", "system_prompt": prompt}])
    assert load_settings(to_toml(run)).source[0].system_prompt == prompt


def test_a_file_of_an_earlier_version_is_read() -> None:
    text = to_toml(small(source=[{"tasks": "a", "system_prompt": "PROMPT"}]))
    earlier = text.replace('"PROMPT"', '"""\nSay \\"hi\\".\nThen \\u007fgo."""')
    assert load_settings(earlier).source[0].system_prompt == 'Say "hi".\nThen \x7fgo.'


def test_a_value_that_toml_has_no_word_for_is_refused() -> None:
    assert to_toml(small(algorithm={"day": date(2026, 1, 2)})).count("day = 2026-01-02\n") == 1
    with pytest.raises(ConfigError, match=r"clip can't be written to a TOML file: .* is a type\."):
        to_toml(small(algorithm={"clip": [int]}))
