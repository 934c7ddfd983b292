"""`agentfly validate` names the tasks whose right answers don't get full marks."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from agentfly.cli.main import app

ROWS = [
    {"id": "good", "question": "2+2?", "answer": "4"},
    {"id": "either", "question": "2+2?", "answer": ["4", "4.0"]},
    {"id": "wordy", "question": "2+3?", "answer": "the fifth"},
    {"id": "lost", "question": "2+4?"},
]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def validate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["validate", *map(str, arguments)])


def test_tasks_that_go_wrong_are_named(tasks: Path) -> None:
    run = validate(tasks, "--reward", "numeric_match")
    assert run.exit_code == 1, run.output
    assert "2 of 4 tasks get full marks" in run.output
    assert "  wordy: " in run.output
    lost = "  lost: no field 'answer' with its right answer: it has id, question. Add it, or name"
    assert lost in run.output
    assert "  good" not in run.output


def test_a_field_that_only_the_reward_reads_is_named(tasks: Path) -> None:
    tasks.with_name("strict_reward.py").write_text(
        "from agentfly import reward\n@reward\ndef strict(final_response, unit):\n    return 1.0\n"
    )
    file = tasks.with_name("run.toml")
    file.write_text(
        'name = "sums"\nmodel.name = "tiny"\n'
        '[[source]]\ntasks = "sums.jsonl"\nreward = "strict_reward:strict"\n'
    )
    run = validate(file, "--trust")
    assert run.exit_code == 1, run.output
    assert "  good: no field 'unit', which the reward 'strict' reads: it has id, " in run.output


def test_a_reward_that_takes_an_environment_needs_no_field_for_it(tasks: Path) -> None:
    tasks.with_name("leased_shop.py").write_text(
        "from agentfly import reward\nclass Shop:\n    items = 0\n"
        '    def buy(self) -> str:\n        """Buy."""\n'
        "@reward\ndef nothing_bought(shop: Shop):\n    return shop.items == 0\n"
    )
    file = tasks.with_name("run.toml")
    for shop in ('tools = ["leased_shop:Shop"]', 'environment = "leased_shop:Shop"'):
        file.write_text(
            'name = "sums"\nmodel.name = "tiny"\n[[source]]\ntasks = "sums.jsonl"\n'
            f'reward = "leased_shop:nothing_bought"\n{shop}\n'
        )
        run = validate(file, "--trust", "--count", "3")
        assert "3 of 3 tasks get full marks" in run.output


def test_a_task_that_its_environment_refuses_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "picky.py").write_text(
        "from agentfly.errors import ConfigError\nclass Picky:\n"
        "    def reset(self, task, seed):\n"
        "        if task.fields['question'] == 'bad':\n"
        "            raise ConfigError(f'there is no product for {task.id}')\n"
        '    def buy(self) -> str:\n        """Buy."""\n'
    )
    words = ["bad", "2+2?", "2+2?", "bad", "bad", *["2+2?"] * 9, "bad"]
    rows = [{"id": f"t{n}", "question": word, "answer": "4"} for n, word in enumerate(words)]
    rows.append({"id": "wrong", "question": "2+2?", "answer": "the fourth"})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    file = tmp_path / "run.toml"
    file.write_text(
        'name = "sums"\nmodel.name = "tiny"\n[[source]]\ntasks = "rows.jsonl"\n'
        'reward = "numeric_match"\nenvironment = "picky:Picky"\n'
    )
    for concurrent in ("1", "2", "8"):
        run = validate(file, "--trust", "--concurrent", concurrent)
        assert run.exit_code == 1, run.output
        assert "11 of 16 tasks get full marks" in run.output
        for number, word in enumerate(words):
            reason = f"  t{number}: there is no product for t{number}\n"
            assert (reason in run.output) == (word == "bad")
        assert "  wrong: unscored: RewardError" in run.output


def test_rows_of_the_shop_that_can_not_be_bought_are_listed(tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    good: dict[str, object] = {"asin": "G0014", "instruction": "x", "attributes": ["a"]}
    bad: dict[str, tuple[dict[str, object], str]] = {
        "unknown": ({**good, "asin": "NOPE"}, "has no product 'NOPE'"),
        "text": ({**good, "attributes": "a"}, "attributes of a WebShop task is a list"),
        "short": ({"instruction": "x"}, "it lacks asin, attributes"),
        "price": ({**good, "price_upper": "cheap"}, "is a number of dollars"),
    }
    rows = [{"id": name, **row} for name, (row, _) in bad.items()]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = validate(file, "--environment", "webshop", "level=easy", "--count", "4")
    assert run.exit_code == 1, run.output
    for name, (_, reason) in bad.items():
        (line,) = (line for line in run.output.splitlines() if line.startswith(f"  {name}: "))
        assert reason in line
    assert "0 of 4 tasks get full marks" in run.output


def test_sound_tasks_pass(tasks: Path) -> None:
    run = validate(tasks, "--reward", "numeric_match", "--count", "2")
    assert run.exit_code == 0, run.output
    assert "2 of 2 tasks get full marks" in run.output


def test_a_run_is_checked_source_by_source(tasks: Path) -> None:
    file = tasks.with_name("run.toml")
    file.write_text(
        'name = "sums"\nmodel.name = "tiny"\n'
        '[[source]]\nname = "a"\ntasks = "sums.jsonl"\nreward = "numeric_match"\n'
        '[[source]]\nname = "b"\ntasks = "sums.jsonl"\nreward = "my_rewards:any_words"\n'
    )
    tasks.with_name("my_rewards.py").write_text(
        "from agentfly import reward\n@reward\ndef any_words(final_response):\n    return 1.0\n"
    )
    run = validate(file, "--trust")
    assert "5 of 8 tasks get full marks" in run.output


def test_without_a_reward_nothing_can_be_said(tasks: Path) -> None:
    run = validate(tasks)
    assert run.exit_code == 2
    assert "--reward" in run.output


def test_an_environments_own_gold_goes_through_its_tools() -> None:
    run = validate("code", "levels=[2]", "count=4", "eval_count=2")
    assert run.exit_code == 0, run.output
    assert "6 of 6 tasks get full marks" in run.output


def test_what_a_reward_notes_about_a_failure_is_shown(tmp_path: Path) -> None:
    codes = ["def f(x): return object()", "def f(x): return 4", "def f(x): return x * x"]
    rows = [
        {"task_id": number, "text": "Square.", "code": code, "test_list": ["assert f(3) == 9"]}
        for number, code in enumerate(codes)
    ]
    file = tmp_path / "mbpp.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = validate("code", "tasks=mbpp", f"file={file}", f"eval_file={file}", "--count", "3")
    assert run.exit_code == 1, run.output
    failed = "reward 0 (answered); first_failed_test:"
    objects, wrong = (line for line in run.output.splitlines() if line.startswith("  mbpp-"))
    assert objects.startswith(f"  mbpp-0: {failed} TypeError: no plain value: <object object")
    assert wrong == f"  mbpp-1: {failed} AssertionError, in: assert f(3) == 9"


def test_own_programs_that_would_be_judged_as_sums_are_refused(tmp_path: Path) -> None:
    right, wrong = "def f(n):\n    return n * n", "def f(n):\n    return 4"
    rows = [
        {"id": "right", "question": "Square.", "tests": ["assert f(3) == 9"], "answer": right},
        {"id": "wrong", "question": "Square.", "tests": ["assert f(3) == 9"], "answer": wrong},
    ]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sums = validate(file, "--environment", "code")
    assert sums.exit_code == 1, sums.output
    assert "0 of 2 tasks get full marks" in sums.output
    assert sums.output.count("with the environment's option tasks = 'programs'") == 2
    programs = validate(file, "--environment", "code", "tasks=programs")
    assert "1 of 2 tasks get full marks" in programs.output
    assert "  wrong: reward 0 (answered)" in programs.output


def test_notes_are_shown_in_one_line_and_shortened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noting.py").write_text(
        "from agentfly import Context, reward\n@reward\n"
        "def noting(final_response: str, context: Context) -> float:\n"
        "    context.metadata['why'] = 'too\\nlong ' + 'x' * 500\n"
        "    context.metadata['number'] = 3\n"
        "    return 0.5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"id": "one", "question": "2+2?", "answer": "4"}\n')
    run = validate(tmp_path / "rows.jsonl", "--reward", "noting:noting")
    (line,) = (line for line in run.output.splitlines() if line.startswith("  one: "))
    assert line.startswith("  one: reward 0.5 (answered); why: too long xxx")
    assert line.endswith("…")
    assert len(line) < 300


def test_parts_below_full_marks_are_shown_where_a_reward_notes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "partly.py").write_text(
        "from agentfly import reward\n@reward\ndef partly(final_response: str, kind: str):\n"
        "    return {'reward': 0.5, 'type': 1, 'attributes': 0.5, 'price': 0} if kind else 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{"id": f"row-{kind}", "question": "?", "answer": "4", "kind": kind} for kind in "ab"]
    rows[1]["kind"] = ""
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = validate(tmp_path / "rows.jsonl", "--reward", "partly:partly").output.splitlines()
    assert "  row-a: reward 0.5 (answered): attributes 0.5, price 0" in lines
    assert "  row-b: reward 0 (answered)" in lines


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cdoe",), "Did you mean 'code'?"),
        (("empty.jsonl", "--reward", "numeric_match"), "no tasks"),
        (("run.toml", "--reward", "numeric_match"), "already names its rewards"),
    ],
)
def test_what_can_not_be_validated_is_reported(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").touch()
    run = validate(*arguments)
    assert run.exit_code == 2
    assert said in run.output


def test_a_reward_on_the_state_of_an_environment_needs_a_player(tmp_path: Path) -> None:
    (tmp_path / "state_shop.py").write_text(
        "from agentfly import reward\nclass Shop:\n    items = 0\n"
        '    def buy(self) -> str:\n        """Buy."""\n'
        "@reward\ndef bought(shop: Shop):\n    return shop.items == 1\n"
    )
    (tmp_path / "shop.jsonl").write_text('{"question": "Buy one."}\n')
    file = tmp_path / "run.toml"
    file.write_text(
        'name = "shop"\nmodel.name = "tiny"\n[[source]]\ntasks = "shop.jsonl"\n'
        'reward = "state_shop:bought"\nenvironment = "state_shop:Shop"\n'
    )
    run = validate(file, "--trust")
    assert run.exit_code == 2, run.output
    assert "source 'default' can't be validated by answers: its reward is on the " in run.output
    assert "PlayerModel" in run.output
    assert "no field" not in run.output.replace("have no field", "")
    assert "full marks" not in run.output


@pytest.mark.parametrize(
    ("reward", "answer", "parameter", "path"),
    [
        ("stored", None, "stock", "stock_room:Stock"),
        ("stored", "a mug", "stock", "stock_room:Stock"),
        ("counted", None, "env", "module:Class"),
        ("opened", None, "room", "stock_room:Room"),
    ],
)
def test_a_reward_on_a_state_that_nothing_has_asks_for_an_environment(
    reward: str,
    answer: str | None,
    parameter: str,
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "stock_room.py").write_text(STOCK_ROOM)
    monkeypatch.syspath_prepend(tmp_path)
    rows = [{"question": f"Store {n}.", "item": n, "answer": answer} for n in range(2)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = validate(tmp_path / "items.jsonl", "--reward", f"stock_room:{reward}")
    assert run.exit_code == 2, run.output
    takes = f"its reward '{reward}' takes an environment as '{parameter}', and none is named"
    assert takes in run.output
    assert f"--environment {path}, or" in run.output
    assert "no field" not in run.output
    assert "full marks" not in run.output


STOCK_ROOM = """
from agentfly import reward

class Stock:
    def __init__(self):
        self.items = []

    def store(self, item: str) -> str:
        'Store an item.'
        self.items.append(item)
        return 'stored'

class Room:
    async def reset(self, task, seed):
        return None
    async def close(self):
        pass

@reward
def stored(stock: Stock, item: str) -> bool:
    return item in stock.items

@reward
def counted(env, item: str) -> bool:
    return False

@reward
def opened(room: Room) -> bool:
    return False
"""


def test_tasks_that_no_player_knows_are_not_checked_and_not_called_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_known.py").write_text(HALF_KNOWN)
    monkeypatch.syspath_prepend(tmp_path)
    some = validate("half_known:GAME")
    assert some.exit_code == 2
    lines = some.output.splitlines()
    assert "there is no expert for the task 'drag': 3 tasks were not checked" in lines
    assert lines[-1] == "2 of 2 tasks get full marks with their right answers"
    wrong = validate("half_known:GAME", "answer=no")
    assert wrong.exit_code == 1
    assert "0 of 2 tasks get full marks" in wrong.output
    none = validate("half_known:GAME", "--count", "1")
    assert none.exit_code == 2
    assert "1 task was not checked" in none.output


def test_tasks_that_no_player_knows_are_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hardly_known.py").write_text(HALF_KNOWN)
    monkeypatch.syspath_prepend(tmp_path)
    several = validate("hardly_known:GAME", "unknown=2").output.splitlines()
    assert "there is no expert for the task 'drag-0', 'drag-1': 2 tasks were not checked" in several
    (many,) = (
        line
        for line in validate("hardly_known:GAME", "unknown=46").output.splitlines()
        if "no expert" in line
    )
    assert many.endswith("'drag-8', 'drag-9' and 36 more: 46 tasks were not checked")


HALF_KNOWN = """
from agentfly import reward
from agentfly.config import Settings
from agentfly.environments import EnvironmentDefinition, Kit, Say
from agentfly.environments.player import NoPlayerError


class Options(Settings):
    answer: str = "yes"
    unknown: int = 0


def make(options):
    @reward
    def agreed(final_response: str) -> float:
        return float(final_response == "yes")

    def play(scene):
        name = scene.task.fields["task"]
        if name.startswith("drag"):
            raise NoPlayerError(f"there is no expert for the task {name!r}")
        yield Say(options.answer)

    def rows():
        drags = [f"drag-{number}" for number in range(options.unknown)]
        names = ["click", *drags] if drags else ["drag", "click", "drag", "click", "drag"]
        return [{"id": str(i), "question": "?", "task": name} for i, name in enumerate(names)]

    return Kit(tasks=rows, eval_tasks=tuple, tools=(), reward=agreed, gold=play)


GAME = EnvironmentDefinition(name="half", summary="Half known.", options=Options, make=make)
"""
