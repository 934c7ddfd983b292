"""Which settings may change when a run is resumed."""

import pytest

from agentfly.config import RunSettings, to_toml
from agentfly.errors import ConfigError
from agentfly.training.run_files import require_same_run


def toml(**changes: object) -> str:
    tables: dict[str, object] = {"name": "x", "model": {"name": "tiny"}, **changes}
    return to_toml(RunSettings.model_validate(tables))


def test_what_decides_when_to_stop_and_save_may_change() -> None:
    later = toml(train={"steps": 500, "target_reward": 0.9}, checkpoint={"every": 3}, folder="y")
    require_same_run(toml(), later)


def test_a_cosine_schedule_keeps_the_step_at_which_it_ends() -> None:
    falling = {"schedule": "cosine", "steps": 100}
    with pytest.raises(ConfigError, match=r"train.steps: 100 then, 200 now") as caught:
        require_same_run(toml(train=falling), toml(train={**falling, "steps": 200}))
    assert "train.schedule is 'cosine'" in str(caught.value)


def test_a_run_that_had_too_little_memory_goes_on_with_less() -> None:
    less = {"tokens_per_microbatch": 512, "share_prefixes": False}
    smaller = toml(train=less, model={"name": "tiny", "gradient_checkpointing": True})
    require_same_run(toml(), smaller)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train": {"lr": 1e-3}}, "train.lr: None then, 0.001 now"),
        ({"seed": 4}, "seed: 0 then, 4 now"),
        ({"model": {"name": "tiny", "lora": {"rank": 4}}}, "model.lora.rank: None then, 4 now"),
        ({"source": [{"tasks": "a.jsonl"}]}, "source.0.tasks: None then, 'a.jsonl' now"),
    ],
)
def test_what_decides_what_is_learned_may_not(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match="started with other settings") as caught:
        require_same_run(toml(), toml(**change))
    assert words in str(caught.value)
