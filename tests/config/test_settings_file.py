from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from agentfly.config import Problem, RunSettings, Settings, load_settings, peer_names
from agentfly.config.peer_names import our_key
from agentfly.config.setting_types import type_at
from agentfly.errors import ConfigError, FormatError

SMALL = """\
name = "sums"
[model]
name = "tiny"
[[source]]
tasks = "sums.jsonl"
"""


@dataclass(frozen=True)
class Bound:
    __pydantic_config__ = Settings.model_config

    low: float
    high: float | None = None


class GrpoOptions(Settings):
    clip: float = Field(default=0.2, gt=0)
    kl: float | None = None
    bound: Bound | None = None


PLUGINS = {"algorithm": {"grpo": GrpoOptions, "rloo": Settings}}


def mistakes(source: Any, *overrides: str, **options: Any) -> list[str]:
    """Return the lines of the error that loading must end with."""
    with pytest.raises(ConfigError) as caught:
        load_settings(source, overrides, **options)
    return str(caught.value).splitlines()


def test_a_file_a_text_and_tables_give_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(SMALL)
    from_path = load_settings(path)
    assert from_path.model.name == "tiny"
    assert from_path.source[0].tasks == "sums.jsonl"
    assert from_path.train.steps == 100
    assert load_settings(str(path)) == from_path
    assert load_settings(SMALL) == from_path
    tables = {"name": "sums", "model": {"name": "tiny"}, "source": [{"tasks": "sums.jsonl"}]}
    assert load_settings(tables, ["train.steps=3"]).train.steps == 3
    assert tables == {
        "name": "sums",
        "model": {"name": "tiny"},
        "source": [{"tasks": "sums.jsonl"}],
    }


def test_a_file_written_by_a_windows_editor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
    assert load_settings(path) == load_settings(SMALL)


def test_all_problems_are_reported_at_once_with_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(
        """\
lr = 3
[model]
device = "gpu"
[algorithm]
name = "gpro"
[train]
steps = "many"
warmup_stesp = 3
betas = [0.9, 1.5]
share_prefixes = 7
[rollout]
num_chains = 0
temperature = nan
mask = 1
max_turns = 2.5
[checkpoint]
every = true
[[source]]
tools = "calculator"
[[source]]
tasks = "b.jsonl"
weight = -1
"""
    )
    said = mistakes(path, "train.lr", "rollout.retries=-2", plugins=PLUGINS)
    quoted = [line for line in said if line.startswith("    ")]
    assert '    line 7 | steps = "many"' in quoted
    assert "    line 22 | weight = -1" in quoted, "of the second source"
    assert "    line 1 | lr = 3" in quoted, "not the train.lr of an override"
    assert [line for line in said if line not in quoted] == [
        f"invalid settings in {path}",
        "  train.lr: an override is written key=value, such as train.lr=1e-5",
        "  algorithm.name: unknown algorithm 'gpro'. Did you mean 'grpo'? Known: grpo, rloo. "
        "Your own is `module:name`",
        "  name: missing. Name of the run and of its folder.",
        "  model.name: missing. A folder, a built-in model, or a hub id.",
        "  model.device: must be 'auto', 'cpu' or 'cuda', got 'gpu'",
        "  rollout.num_chains: must be greater than or equal to 1, got 0",
        "  rollout.temperature: must be a finite number, got nan",
        "  rollout.max_turns: must be a whole number, got 2.5",
        "  rollout.retries: must be greater than or equal to 0, got -2",
        "  rollout.mask: must be a text in quotes, got 1",
        "  train.steps: must be a whole number, got 'many'",
        "  train.betas.1: must be less than 1, got 1.5",
        "  train.share_prefixes: must be true or false, got 7",
        "  train.warmup_stesp: unknown key. Did you mean 'warmup_steps'? Known: "
        "betas, critic_lr, critic_warmup_steps, epochs, lr, max_grad_norm, minibatches, schedule, "
        "share_prefixes, steps, "
        "target_reward, target_window, tokens_per_microbatch, warmup_steps, weight_decay.",
        "  checkpoint.every: must be a number, got true",
        "  source.0.tasks: missing. A file (.json, .jsonl, .csv, .parquet), `module:function` that "
        "returns rows, or "
        "`hub:dataset`, `hub:dataset:split`, `hub:dataset:configuration:split` of a Hugging Face "
        "hub. A built-in environment has its own.",
        "  source.0.tools: must be a list, got 'calculator'",
        "  source.1.weight: must be greater than 0, got -1",
        "  lr: unknown key. Did you mean train.lr?",
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": {"tasks": "a"}}, "source: there may be several: write [[source]] in double"),
        ({"source": []}, "source: a run needs tasks: add at least one table [[source]]"),
        ({"source": None}, "source: must be a list, got None"),
        ({"model": "tiny"}, "model: must be a table, got 'tiny': write model.name = \"tiny\""),
        ({"algorithm": "ppo"}, "algorithm: must be a table, got 'ppo': write algorithm.name = "),
        ({"learning_rate": 3}, "learning_rate: unknown key. Did you mean train.lr?"),
        (
            {"train": {"learning_rate": 3}},
            "train.learning_rate: unknown key. Did you mean train.",
        ),
        ({"beta": 0.1}, "beta: unknown key. Did you mean algorithm.kl.coefficient?"),
        (
            {"train": {"batch_size": 8}},
            "train.batch_size: unknown key. Did you mean rollout.tasks_",
        ),
        (
            {"rollout": {"max_new_tokens": 8}},
            "rollout.max_new_tokens: unknown key. Did you mean ro",
        ),
        ({"num_train_epochs": 3}, "num_train_epochs: unknown key. Did you mean train.steps (a run"),
        ({"algorithm": {"name": 3}}, "algorithm.name: must be a text in quotes, got 3"),
        ({"modle": {"name": "x"}}, "modle: unknown key. Did you mean 'model'? Known: "),
        ({"num_chains": 3}, "num_chains: unknown key. Did you mean rollout.num_chains or eval.num"),
        ({"train": {"betas": [0.9] * 3}}, "train.betas: must be a list of at most 2, got [0.9, 0"),
        ({"train": {"steps": 3, "warmup_steps": 4}}, "train.warmup_steps: must be at most train."),
        ({"train": {"warmup_steps": 101}}, "train.warmup_steps: must be at most train.steps, whi"),
        ({"model": {"name": "t", "lora": {"rnak": 1}}}, "model.lora.rnak: unknown key. Did you "),
        ({"model": {"name": "t" * 99, "device": "t" * 99}}, "model.device: must be 'auto', "),
        ({"name": "a/b"}, "name: must be the name of a folder, such as 'calculator', got 'a/b'"),
        ({"name": ".."}, "name: must be the name of a folder"),
        ({"name": " "}, "name: must be the name of a folder"),
        ({"name": "-x"}, "name: must not begin with -, as options of commands do, got '-x'"),
        (
            {"name": "x" * 256},
            "name: must have at most 255 bytes, as the name of a folder, got 256",
        ),
        (
            {"source": [{"tasks": "a"}, {"tasks": "b"}, {"name": "c", "tasks": "c"}]},
            "source: several sources are named 'default': give each its own `name`",
        ),
    ],
)
def test_a_problem_is_reported_with_the_way_out(change: dict[str, Any], said: str) -> None:
    good = {"name": "sums", "model": {"name": "tiny"}, "source": [{"tasks": "a"}]}
    lines = mistakes({**good, **change}, plugins=PLUGINS)
    assert len(lines) == 2
    assert lines[0] == "invalid settings"
    assert lines[1].startswith(f"  {said}")


def test_what_is_missing_is_asked_for_with_its_table() -> None:
    assert mistakes({"name": "x"}) == [
        "invalid settings",
        "  source: missing. Add at least one table [[source]]",
        "  model: missing. Add the table [model]. The trained model, its device and precision.",
    ]


def test_a_plugins_options_are_checked_and_completed_by_itself() -> None:
    options = load_settings(SMALL, ["algorithm.clip=0.3"], PLUGINS).algorithm.options
    assert options == {"clip": 0.3}
    options = load_settings(SMALL, ["algorithm.bound.low=1"], PLUGINS).algorithm.options
    assert options == {"clip": 0.2, "bound": {"low": 1.0}}
    assert load_settings(SMALL, ["algorithm.name=rloo"], PLUGINS).algorithm.options == {}
    assert mistakes(SMALL, "algorithm.clp=1", "algorithm.clip=-1", plugins=PLUGINS) == [
        "invalid settings",
        "  algorithm.clip: must be greater than 0, got -1",
        "  algorithm.clp: unknown key. Did you mean 'clip'? Known: bound, clip, kl.",
    ]


def test_a_plugins_inner_table_may_be_a_dataclass() -> None:
    changes = ["algorithm.bound.hihg=1", "algorithm.bound.high=much"]
    assert mistakes(SMALL, *changes, plugins=PLUGINS) == [
        "invalid settings",
        "  algorithm.bound.low: missing. It has no default",
        "  algorithm.bound.high: must be a number, got 'much'",
        "  algorithm.bound.hihg: unknown key. Did you mean 'high'? Known: high, low.",
    ]
    assert mistakes(SMALL, "algorithm.bound=3", plugins=PLUGINS)[1:] == [
        "  algorithm.bound: must be a table, got 3"
    ]


def test_options_of_a_users_own_algorithm_are_left_to_it() -> None:
    settings = load_settings(SMALL, ["algorithm.name=mine:best", "algorithm.x=[1, 2]"], PLUGINS)
    assert settings.algorithm.name == "mine:best"
    assert settings.algorithm.options == {"x": [1, 2]}


def test_the_composition_roots_problems_are_reported_in_the_same_way() -> None:
    def check(settings: RunSettings) -> Iterator[Problem]:
        if settings.rollout.num_chains < 2:
            yield Problem(key="rollout.num_chains", text="grpo needs at least 2")

    assert load_settings(SMALL, check=check).name == "sums"
    assert mistakes(SMALL, "rollout.num_chains=1", "x", check=check) == [
        "invalid settings",
        "  x: an override is written key=value, such as train.lr=1e-5",
        "  rollout.num_chains: grpo needs at least 2",
    ]


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        (b'name = "a"\nmodel = \n', r"run\.toml is not TOML: .*\(at line 2, column 9\)"),
        (b"[train\nsteps = 3", r"is not TOML: .*\(at line 1, column 7\)"),
        (b"[train]\nlr = 1\nlr = 2", r"is not TOML: .*at end of document|line 3"),
        (b'name = "a"\nx = "\xff"', r"run\.toml is not UTF-8 text in line 2\. Save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_toml_says_where(tmp_path: Path, contents: bytes, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(contents)
    with pytest.raises(FormatError, match=said):
        load_settings(path)


def test_the_line_of_a_mistake_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('name = "sums"\nmodel.name = tiny\n')
    with pytest.raises(FormatError) as caught:
        load_settings(path)
    assert str(caught.value).splitlines() == [
        f"{path} is not TOML: Invalid value (at line 2, column 14). Texts are in quotes: "
        'name = "sums"; true and false are in small letters',
        "  line 2 | model.name = tiny",
        "                        ^",
    ]
    path.write_text(
        'name = "sums"\nmodel.name = "tiny"\n[[source]]\ntasks = "a"\nsystem_prompt = """\n'
        'weight = 0"""\n\n[[source]] # two\nname = "b"\ntasks = "b"\n  "weight" = "heavy" # kg\n'
    )
    assert mistakes(path) == [
        f"invalid settings in {path}",
        "  source.1.weight: must be a number, got 'heavy'",
        '    line 11 |   "weight" = "heavy" # kg',
        "                ^^^^^^^^",
    ]
    assert mistakes(path, "source.1.weight=-1") == [
        f"invalid settings in {path}",
        "  source.1.weight: must be greater than 0, got -1",
    ]


def test_peers_names_lead_to_keys_that_exist() -> None:
    names = {key for key, _ in (our_key(name) or ("", "") for name in peer_names._KEYS)}
    options = {key for key in names if key.startswith("algorithm.")}
    assert [key for key in names - options if type_at(RunSettings, key.split(".")) is None] == []


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(SMALL)
    with pytest.raises(ConfigError, match=r"no file '.*runn\.toml'\. Did you mean 'run\.toml'\? T"):
        load_settings(tmp_path / "runn.toml")
    with pytest.raises(ConfigError, match=r"is a folder\. TOML files in '.*': run\.toml\."):
        load_settings(tmp_path)
    with pytest.raises(ConfigError, match=r"no file '.*'\. TOML files in '.*nowhere': none\."):
        load_settings(tmp_path / "nowhere" / "run.toml")
    with pytest.raises(ConfigError, match=r"can't be read: Not a directory"):
        load_settings(tmp_path / "run.toml" / "x.toml")


def test_further_files_are_put_over_the_first_and_single_overrides_over_all(
    tmp_path: Path,
) -> None:
    base, one_gpu, short = (tmp_path / name for name in ("run.toml", "one_gpu.toml", "short.toml"))
    base.write_text(f"{SMALL}[train]\nsteps = 30\nlr = 1e-5\n")
    one_gpu.write_text("[model.lora]\nrank = 8\n[train]\nlr = 1e-4\n")
    short.write_text("[train]\nsteps = 2\nlr = 3e-4\n[[source]]\ntasks = 'other.jsonl'\n")
    settings = load_settings(base, [str(one_gpu), "train.steps=5", str(short)])
    assert settings.model.lora is not None
    assert (settings.model.name, settings.model.lora.rank) == ("tiny", 8)
    assert (settings.train.steps, settings.train.lr) == (5, 3e-4)
    assert [source.tasks for source in settings.source] == ["other.jsonl"]


def test_problems_of_several_files_name_them_all(tmp_path: Path) -> None:
    base, other = tmp_path / "run.toml", tmp_path / "other.toml"
    base.write_text(SMALL)
    other.write_text("[train]\nstesp = 3\n")
    lines = mistakes(base, str(other))
    assert lines[0].endswith(f"{base} + {other}")
    assert "train.stesp: unknown key. Did you mean 'steps'?" in lines[1]
    assert (
        f"there is no file {str(tmp_path / 'gone.toml')!r}"
        in mistakes(base, str(tmp_path / "gone.toml"))[0]
    )


def test_a_long_line_is_cut_after_the_caret(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "' + "a" * 3000 + '"}')
    with pytest.raises(ConfigError, match="is not TOML") as caught:
        load_settings(tmp_path / "rows.jsonl")
    assert max(map(len, str(caught.value).splitlines())) < 200
