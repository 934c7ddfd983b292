"""Problems in the settings of a warm start, in its own words."""

import pytest

from agentfly.config import SettingsError
from agentfly.config.sft_settings import load_sft_settings

WARM = {"name": "warm", "model": {"name": "tiny"}, "data": {"files": ["chats.jsonl"]}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data": {"files": []}}, "data.files: must be a list of at least 1, got []"),
        ({"data": {"files": [3]}}, "data.files.0: must be a text in quotes, got 3"),
        ({"train": {"steps": 3}}, "train.steps: unknown key. Known: conversations_per_step, "),
        ({"lr": 1e-5}, "lr: unknown key. Did you mean train.lr?"),
    ],
)
def test_a_problem_is_reported_in_the_words_of_a_warm_start(
    change: dict[str, object], said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load_sft_settings({**WARM, **change})
    (problem,) = caught.value.problems
    assert str(problem).startswith(said)


def test_one_file_needs_no_list() -> None:
    data = load_sft_settings(WARM, ["data.files=more.jsonl", "data.held_out=runs/late"]).data
    assert (data.files, data.held_out) == (("more.jsonl",), ("runs/late",))
