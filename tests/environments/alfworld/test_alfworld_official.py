"""The benchmark's games in both layouts."""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.environments.alfworld.alfworld_rooms import kitchen

from agentfly.environments.alfworld import AlfworldOptions, household, official_games
from agentfly.environments.alfworld.builtin import make_alfworld
from agentfly.environments.alfworld.engine.goal import TASK_TYPES, Goal
from agentfly.environments.alfworld.environment import Alfworld, AlfworldTextWorld
from agentfly.environments.alfworld.tasks import load_script, official_rows
from agentfly.errors import ConfigError, FormatError
from agentfly.types import Seed, Task

SHARED = Path(__file__).parents[3].parent / "shared" / "data" / "alfworld"

COLD = Goal(task_type="pick_cool_then_place_in_recep", item="apple", receptacle="countertop")


def row(trial: str, goal: Goal = COLD, *, solvable: bool = True) -> dict[str, Any]:
    return {
        "split": "train",
        "task_dir": "pick-Apple-1",
        "trial": trial,
        "desc": goal.sentence(),
        "solvable": solvable,
        "human": ["Chill an  apple,\nput it on the counter. ", "A cold apple for the counter"],
        "pddl_problem": kitchen(goal).text,
    }


def as_lines(
    folder: Path, rows: list[dict[str, Any]], *, packed: bool, split: str = "train"
) -> None:
    text = "".join(json.dumps(each) + "\n" for each in rows)
    if packed:
        (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    else:
        (folder / f"{split}.jsonl").write_text(text)


def as_folders(folder: Path, rows: list[dict[str, Any]], split: str = "train") -> None:
    for each in rows:
        place = folder / "json_2.1.1" / split / each["task_dir"] / each["trial"]
        place.mkdir(parents=True)
        grammar = f'"rhs": "Your task is to: {each["desc"]}"'
        game = {"pddl_problem": each["pddl_problem"], "grammar": grammar, "pddl_domain": ""}
        (place / "game.tw-pddl").write_text(json.dumps(game | {"solvable": each["solvable"]}))
        people = [{"task_desc": words} for words in each["human"]]
        (place / "traj_data.json").write_text(json.dumps({"turk_annotations": {"anns": people}}))


def rows_in(folder: Path, **options: Any) -> list[dict[str, Any]]:
    return [dict(r) for r in make_alfworld(AlfworldOptions(data=str(folder), **options)).tasks()]


@pytest.mark.parametrize("layout", ["folders", "lines", "packed"])
def test_solvable_games_are_found_in_every_layout(tmp_path: Path, layout: str) -> None:
    games = [row("trial_1"), row("trial_2", solvable=False), row("trial_3")]
    if layout == "folders":
        as_folders(tmp_path, games)
    else:
        as_lines(tmp_path, games, packed=layout == "packed")
    found = rows_in(tmp_path)
    assert [each["id"] for each in found] == [
        "train/pick-Apple-1/trial_1",
        "train/pick-Apple-1/trial_3",
    ]
    assert found[0]["task_type"] == "pick_cool_then_place_in_recep"
    assert found[0]["goal"] == "put a cool apple in countertop."
    assert (found[0]["item"], found[0]["receptacle"]) == ("apple", "countertop")
    script = load_script(found[1])
    assert script.text == games[2]["pddl_problem"]
    assert script.task == found[1]["goal"]
    assert script.problem == kitchen(COLD).problem


@pytest.mark.parametrize("layout", ["folders", "lines"])
def test_goals_may_be_in_the_words_of_people(tmp_path: Path, layout: str) -> None:
    games = [row(f"trial_{n}") for n in range(8)]
    if layout == "folders":
        as_folders(tmp_path, games)
    else:
        as_lines(tmp_path, games, packed=False)
    found = {each["goal"] for each in rows_in(tmp_path, goal_text="human")}
    assert found == {"Chill an apple, put it on the counter.", "A cold apple for the counter."}
    assert rows_in(tmp_path, goal_text="human") == rows_in(tmp_path, goal_text="human")


@pytest.mark.parametrize("layout", ["folders", "lines"])
def test_unseen_games_are_held_out_on_request(tmp_path: Path, layout: str) -> None:
    for split in ("train", "valid_seen", "valid_unseen"):
        games = [row(f"trial_{split}") | {"split": split}]
        if layout == "folders":
            as_folders(tmp_path, games, split)
        else:
            as_lines(tmp_path, games, packed=False, split=split)
    kit = make_alfworld(AlfworldOptions(data=str(tmp_path), eval_split="valid_unseen"))
    rows = [*kit.tasks(), *kit.eval_tasks()]
    assert [each["id"].split("/")[-1] for each in rows] == ["trial_train", "trial_valid_unseen"]


@pytest.mark.parametrize("there", ["train", "valid_seen"])
def test_a_split_is_needed_only_when_it_is_used(tmp_path: Path, there: str) -> None:
    as_lines(tmp_path, [row("trial_1") | {"split": there}], packed=False, split=there)
    kit = make_alfworld(AlfworldOptions(data=str(tmp_path)))
    used, other = kit.tasks, kit.eval_tasks
    missing = "valid_seen"
    if there == "valid_seen":
        used, other, missing = other, used, "train"
    assert len(list(used())) == 1
    with pytest.raises(ConfigError, match=missing):
        other()


def test_a_game_nobody_described_says_so(tmp_path: Path) -> None:
    as_lines(tmp_path, [row("trial_1") | {"human": []}], packed=False)
    with pytest.raises(ConfigError, match=r'no goal in a person.*goal_text = "template"'):
        rows_in(tmp_path, goal_text="human")


def test_kinds_of_task_are_chosen(tmp_path: Path) -> None:
    place = Goal(task_type="pick_and_place_simple", item="apple", receptacle="fridge")
    as_lines(tmp_path, [row("trial_1"), row("trial_2", place)], packed=False)
    (found,) = rows_in(tmp_path, task_types=["pick_and_place_simple"])
    assert found["id"].endswith("trial_2")


def test_the_folder_may_be_named_by_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_folders(tmp_path, [row("trial_1")])
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert len(list(make_alfworld(AlfworldOptions(data="$ALFWORLD_DATA")).tasks())) == 1


@pytest.mark.parametrize("data", ["$UNSET_FOLDER", "${UNSET_FOLDER}/games", "/data/$UNSET_FOLDER"])
def test_a_variable_that_is_not_set_is_named(data: str) -> None:
    with pytest.raises(ConfigError, match="the environment variable UNSET_FOLDER is not set") as no:
        make_alfworld(AlfworldOptions(data=data)).tasks()
    assert f"data = {data!r}" in str(no.value)


def test_a_variable_that_the_shell_expanded_to_nothing_is_reported() -> None:
    with pytest.raises(ConfigError, match="data is empty: name the folder of the games"):
        make_alfworld(AlfworldOptions(data="")).eval_tasks()


def test_a_folder_may_be_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GAMES", "games")
    assert official_games.data_folder("~/${GAMES}") == tmp_path / "games"


@pytest.mark.parametrize("kind", [Alfworld, AlfworldTextWorld])
def test_no_task_can_make_the_environment_read_another_file(
    tmp_path: Path, kind: type[Alfworld]
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"PLANTED": 1}')
    games = tmp_path / "games"
    games.mkdir()
    for file in (secret, games / ".." / "secret.json", f"{games}/../secret.json", "secret.json", 7):
        for line in (None, 1):
            task = Task(id="t", messages=(), fields={"file": str(file), "line": line, "goal": "."})
            for data in (None, str(games)):
                with pytest.raises(ConfigError, match="the option `data`") as refused:
                    kind(data=data).reset(task, Seed(0))
                assert "PLANTED" not in str(refused.value)


def test_games_behind_a_link_in_their_folder_are_played(tmp_path: Path) -> None:
    as_folders(tmp_path / "elsewhere", [row("trial_1")])
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "json_2.1.1").symlink_to(tmp_path / "elsewhere" / "json_2.1.1")
    kit = make_alfworld(AlfworldOptions(data=str(tmp_path / "data")))
    assert kit.environment is not None
    env = kit.environment.make()
    assert "cool apple" in env.reset(Task.from_row(next(iter(kit.tasks()))), Seed(0)).observation


def test_a_folder_without_games_says_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no games in .*json_2.1.1/train.*train.jsonl.gz"):
        rows_in(tmp_path)


def test_a_split_without_solvable_games_says_so(tmp_path: Path) -> None:
    as_lines(tmp_path, [row("trial_1", solvable=False)], packed=False)
    with pytest.raises(ConfigError, match=r"none of the games of train .* solvable"):
        rows_in(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"train.jsonl:2 is not JSON"),
        ("[]", r"train.jsonl:2 must hold a JSON object, got a list"),
        ("{}", r"train.jsonl:2 lacks split, task_dir"),
        (json.dumps(row("t") | {"pddl_problem": "?"}), r"train.jsonl:2 can't be read: .*no PDDL"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "train.jsonl").write_text(json.dumps(row("trial_1")) + "\n" + line + "\n")
    with pytest.raises(FormatError, match=message):
        rows_in(tmp_path)


def test_a_broken_game_file_is_named(tmp_path: Path) -> None:
    as_folders(tmp_path, [row("trial_1")])
    (file,) = tmp_path.rglob("game.tw-pddl")
    file.write_text('{"solvable": true}')
    with pytest.raises(FormatError, match=r"trial_1/game.tw-pddl lacks pddl_problem"):
        rows_in(tmp_path)


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"games"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    as_lines(tmp_path, [row("trial_1")], packed=True)
    file = tmp_path / "train.jsonl.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(FormatError, match=r"train\.jsonl\.gz is cut short or damaged"):
        rows_in(tmp_path)


def test_chains_that_begin_together_read_a_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_lines(tmp_path, [row(f"trial_{number}") for number in range(8)], packed=True)
    rows = rows_in(tmp_path)
    opened: list[Path] = []
    lines = official_games._lines

    def counted(path: Path) -> Iterator[str]:
        opened.append(path)
        return lines(path)

    monkeypatch.setattr(official_games, "_lines", counted)
    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(load_script, rows))) == 8
    assert len(opened) == 1


def test_games_that_are_gone_when_they_are_played_are_named(tmp_path: Path) -> None:
    as_folders(tmp_path, [row("trial_1")])
    (found,) = rows_in(tmp_path)
    next(tmp_path.rglob("game.tw-pddl")).unlink()
    with pytest.raises(ConfigError, match=r"trial_1/game.tw-pddl' is gone"):
        load_script(found)
    with pytest.raises(ConfigError, match=r"nowhere.jsonl' is gone"):
        load_script({"file": str(tmp_path / "nowhere.jsonl"), "line": 1, "goal": ""})


@pytest.mark.skipif(not SHARED.exists(), reason="needs the benchmark's games")
def test_the_benchmark_has_140_seen_games_of_all_kinds() -> None:
    rows = list(
        official_rows(str(SHARED), split="valid_seen", task_types=TASK_TYPES, goal_text="template")
    )
    assert len(rows) == 140
    assert {each["task_type"] for each in rows} == set(TASK_TYPES)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the benchmark's games")
def test_no_training_game_is_played_in_a_held_out_floor_plan() -> None:
    with gzip.open(SHARED / "train.jsonl.gz", "rt") as file:
        rooms = {int(re.split("-", json.loads(line)["task_dir"])[-1]) for line in file}
    first, held_out = household._FIRST_PLAN, household._HELD_OUT_PLANS
    plans = {first[room] + number for room in first for number in held_out[room]}
    everywhere = {first[room] + number for room in first for number in household._PLAN_NUMBERS}
    assert everywhere - rooms == plans
