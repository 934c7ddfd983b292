"""Which settings may change when a run is resumed."""

from pathlib import Path

import pytest

from agentfly.agents.run_parts import with_algorithm_defaults
from agentfly.config import RunSettings, to_toml
from agentfly.errors import ConfigError
from agentfly.training.run_files import open_folder, require_same_run


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


def test_a_run_whose_file_lacks_its_algorithm_s_defaults_is_resumed_with_them(
    tmp_path: Path,
) -> None:
    """Files of earlier versions, and of an own algorithm that has a new option."""

    def chosen(**options: object) -> RunSettings:
        tables = {"name": "x", "model": {"name": "tiny"}, "folder": tmp_path}
        algorithm = {"name": "dapo", **options}
        return RunSettings.model_validate({**tables, "algorithm": algorithm})

    open_folder(chosen(entropy_coefficient=0.1), resume=False).close()
    now = with_algorithm_defaults(chosen(entropy_coefficient=0.1), None)
    assert "clip" in now.algorithm.options
    open_folder(now, resume=True).close()
    other = with_algorithm_defaults(chosen(entropy_coefficient=0.2), None)
    with pytest.raises(ConfigError, match=r"entropy_coefficient: 0.1 then, 0.2 now"):
        open_folder(other, resume=True)
