"""`agentfly envs`: a person looks at, plays and serves the built-in environments."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import WAIT_SECONDS, agentfly
from typer.testing import CliRunner, Result

from agentfly.cli.envs.play import help_text, leaves, read_line
from agentfly.cli.main import app
from agentfly.cli.serving import until_interrupted
from agentfly.environments import ENVIRONMENTS
from agentfly.observe import read_trajectories
from agentfly.runtime.http.address import split_token, with_token
from agentfly.types import ToolSpec


def envs(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["envs", *arguments])


def test_all_are_listed_with_what_they_need() -> None:
    shown = envs("list").output
    assert all(name in shown for name in ENVIRONMENTS)


def test_an_unknown_name_or_option_is_reported_with_what_there_is() -> None:
    unknown = envs("info", "coed")
    assert unknown.exit_code == 2
    assert "Did you mean 'code'?" in unknown.output
    wrong = envs("demonstrate", "code", "levles=[1]")
    assert wrong.exit_code == 2
    assert "options.levles: unknown key. Did you mean 'levels'?" in wrong.output


def test_a_word_that_is_no_option_is_reported_as_one() -> None:
    wrong = envs("info", "code", "levels")
    assert wrong.exit_code == 2
    said = "levels: an option is written key=value, such as site=office"
    assert wrong.output.rstrip().endswith(said)


def test_info_checks_options_before_it_shows_anything() -> None:
    wrong = envs("info", "code", "level=1")
    assert wrong.exit_code == 2
    assert wrong.output.startswith("error: invalid settings\n  options.level: unknown key.")


def test_info_of_an_index_says_that_it_brings_no_questions() -> None:
    pytest.importorskip("bm25s")
    shown = envs("info", "search", "index=notes")
    assert shown.exit_code == 0, shown.output
    assert "tool search(query)" in shown.output
    assert "\nno task: index = 'notes' needs questions of its own: " in shown.output


def test_info_shows_options_tools_and_a_task() -> None:
    shown = envs("info", "code").output
    assert "levels = [1]" in shown
    assert "code_interpreter(code)" in shown
    assert '"question"' in shown


def test_info_writes_the_given_options_as_settings() -> None:
    shown = envs("info", "code", "tasks=programs", "levels=[1,2]").output
    block = textwrap.dedent(shown[shown.index("  [[source]]") : shown.index("\ntool ")])
    (source,) = tomllib.loads(block)["source"]
    chosen = {"tasks": "programs", "levels": [1, 2]}
    assert source == {"environment": "code", "options": chosen}
    plain = envs("info", "code").output
    assert "options =" not in plain


def test_info_lists_the_tasks_of_the_chosen_site() -> None:
    shown = envs("info", "browser", "site=office").output
    assert "[all | learnable | lookup | extreme |" in shown
    unknown = envs("info", "browser", "site=shop")
    assert unknown.exit_code == 2
    assert "'office'" in unknown.output, "the sites are listed"
    assert "part_chars" not in unknown.output, "nothing else is shown"


def test_info_lists_the_values_of_options_and_takes_some() -> None:
    shown = envs("info", "code", "tasks=programs").output
    assert '["math" | "programs" | "gsm8k" | "humaneval" | "mbpp" | "apps"]' in shown
    assert "[1 | 2 | 3]" in shown
    assert "[≥ 1]" in shown
    assert "[true | false]" in shown
    assert "reward hidden_tests" in shown, "the reward of programs"
    (hops,) = [line for line in envs("info", "search").output.splitlines() if " hops = " in line]
    assert hops.endswith("[≥ 1 and ≤ 3]"), "limits of a list's items"
    (repeat,) = [
        line
        for line in envs("info", "webshop").output.splitlines()
        if " repeat_instruction = " in line
    ]
    assert repeat.endswith("[true | false]"), "a truth value, or none"


@pytest.mark.parametrize("kind", ["tools", "code"])
def test_demonstrations_are_scored_and_saved(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "missing" / "folder" / "expert.jsonl"
    run = envs("demonstrate", "code", "--count", "3", "--kind", kind, "--out", str(out))
    assert run.exit_code == 0, run.output
    assert f"3 chains are in {out}" in run.output.splitlines()
    chains = list(read_trajectories(out))
    assert [chain.reward for chain in chains] == [1.0] * 3
    assert all(chain.tools for chain in chains)


def test_demonstrations_do_not_overwrite_a_file(tmp_path: Path) -> None:
    out = tmp_path / "expert.jsonl"
    out.write_text("mine\n")
    run = envs("demonstrate", "code", "--count", "1", "--out", str(out))
    assert run.exit_code == 2, run.output
    said = f"error: the file {out} exists already, and is not overwritten: name a new file, or"
    assert run.output.startswith(said)
    assert out.read_text() == "mine\n"


def test_players_that_an_environment_has_are_listed() -> None:
    run = envs("demonstrate", "code", "--by", "noisy")
    assert run.exit_code == 2
    said = "this environment has no player 'noisy'. It has expert, gold, random"
    assert said in " ".join(run.output.split())


FRAGILE = """
from agentfly import reward
from agentfly.config import Settings
from agentfly.environments import EnvironmentDefinition, Kit, Say
from agentfly.errors import EngineError, RewardError


class Options(Settings):
    broken: tuple[int, ...] = ()
    judge: bool = True


def make(options):
    @reward
    def judged(final_response: str) -> float:
        if not options.judge:
            raise RewardError("the judge is out")
        return float(final_response == "yes")

    def play(scene):
        if int(scene.task.id) in options.broken:
            raise EngineError(f"no hint for task {scene.task.id}")
        yield Say("yes")

    def rows():
        return [{"id": str(number), "question": "Agreed?"} for number in range(3)]

    return Kit(tasks=rows, eval_tasks=rows, tools=(), reward=judged, expert=play)


FRAGILE = EnvironmentDefinition(name="fragile", summary="Fails.", options=Options, make=make)
"""


@pytest.fixture
def fragile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "fragile_game.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(tmp_path)
    return "fragile_game:FRAGILE"


def test_demonstrations_that_all_fail_are_an_error_and_leave_no_file(
    fragile: str, tmp_path: Path
) -> None:
    out = tmp_path / "chains.jsonl"
    failed = envs("demonstrate", fragile, "broken=[0,1,2]", "--out", str(out))
    assert failed.exit_code == 1
    assert "EngineError: no hint for task 0" in failed.output.splitlines()
    assert "no hint for task 1" not in failed.output
    assert "chains are in" not in failed.output
    assert not out.exists()


def test_demonstrations_of_which_some_fail_are_kept_with_the_cause(
    fragile: str, tmp_path: Path
) -> None:
    out = tmp_path / "chains.jsonl"
    shown = envs("demonstrate", fragile, "broken=[1]", "--out", str(out))
    assert shown.exit_code == 0
    assert "EngineError: no hint for task 1" in shown.output.splitlines()
    assert len(list(read_trajectories(out))) == 3


@pytest.mark.parametrize("command", ["info", "play", "demonstrate"])
@pytest.mark.parametrize("option", [[], ["tasks=rows.jsonl"]])
def test_a_class_without_tasks_is_refused_alike(
    command: str, option: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "box_game.py").write_text("class Box:\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    refused = envs(command, "box_game:Box", *option)
    assert refused.exit_code == 2
    assert refused.output.startswith(
        "error: the environment 'box_game:Box' brings no tasks of its own: name it in a [[source]]"
    )
    assert "play it with `agentfly envs play box_game:Box --tasks FILE`" in refused.output


def test_a_class_of_ones_own_is_played_with_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "play_box.py").write_text(
        "class Box:\n    def put(self, item: str) -> str:\n"
        '        """Put an item into the box."""\n        return f"{item} is in the box"\n'
    )
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Put a mug."}\n{"question": "Put a cup into the box."}\n')
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["envs", "play", "play_box:Box", "--tasks", str(rows), "--task", "2"]
    played = CliRunner().invoke(app, arguments, input="cup\n/say done\n")
    assert played.exit_code == 0, played.output
    assert "Put a cup into the box." in played.output
    assert "cup is in the box" in played.output
    assert "over (answered). Reward: not scored" in played.output


def test_a_failed_game_is_an_error(fragile: str) -> None:
    played = CliRunner().invoke(app, ["envs", "play", fragile, "judge=false"], input="yes\n")
    assert "the judge is out" in played.output
    assert played.exit_code == 1
    assert envs("play", fragile).exit_code == 0, "it was left by Ctrl-D"


def test_a_person_plays_in_a_terminal() -> None:
    with agentfly("envs", "play", "code") as (terminal, process):
        question = terminal.wait_for(r"What is [^\n]*\n(?s:.*)> ")
        sum_asked = re.search(r"What is (.*)\?", question)
        assert sum_asked
        terminal.type(f"{sum_asked[1]}\n")
        shown = terminal.wait_for(r"(?s)\n(-?\d+).*\n> ")
        number = re.search(r"\n(-?\d+)", shown)
        assert number
        terminal.type(f"/say {number[1]}\n")
        terminal.wait_for(r"Reward: 1\b")
        assert process.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_ctrl_c_and_ctrl_d_leave_the_game(key: str) -> None:
    with agentfly("envs", "play", "code") as (terminal, process):
        terminal.wait_for("> ")
        terminal.press(key, until="left")
        assert process.wait(timeout=WAIT_SECONDS) == 0


@contextmanager
def served(*arguments: str, **variables: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server on a free port, with what it printed, and its process."""
    command = [sys.executable, "-m", "agentfly.cli", "envs", "serve", *arguments, "--port", "0"]
    environment = os.environ | variables
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stderr=pipe, text=True, env=environment) as server:
        assert server.stderr is not None
        try:
            found = re.search(r"http://\S+", server.stderr.readline())
            assert found
            yield found[0], server
        finally:
            server.kill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_environment_is_served_to_other_programs(ending: signal.Signals) -> None:
    with served("code") as (url, server):
        session = _post(url, "/sessions", {"options": {}})["session"]
        call = {"number": 1, "args": ["6 * 7"], "kwargs": {}}
        ran = _post(url, f"/sessions/{session}/step", call)["value"]
        assert ran["observation"] == "42"
        server.send_signal(ending)
        assert server.wait(timeout=WAIT_SECONDS) == 0
        assert server.stderr is not None
        said = server.stderr.read()
        assert "Traceback" not in said
        token = split_token(url)[1]
        assert token is not None
        assert token not in said, "it is printed once"


def test_sigterm_is_not_lost_in_a_finalizer(capsys: pytest.CaptureFixture[str]) -> None:
    class Dying:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    async def serve() -> None:
        Dying()
        await asyncio.sleep(5)
        pytest.fail("it goes on")

    with until_interrupted():
        asyncio.run(serve())
    assert capsys.readouterr().err == "ended\n"


def test_a_server_that_is_killed_leaves_nothing_behind() -> None:
    with served("code") as (url, server):
        session = _post(url, "/sessions", {"options": {}})["session"]
        _post(url, f"/sessions/{session}/step", {"number": 1, "args": ["1"]})
        below = descendants(server.pid)
        assert below, "the sandbox is a process"
        server.kill()
        server.wait(timeout=WAIT_SECONDS)
        give_up = time.monotonic() + WAIT_SECONDS
        while alive := [pid for pid in below if Path(f"/proc/{pid}").exists()]:
            assert time.monotonic() < give_up, alive
            time.sleep(0.02)


def descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


def test_the_shop_is_served_to_a_browser() -> None:
    with served("webshop", "level=easy", "--web") as (url, server):
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(url, timeout=WAIT_SECONDS) as page:
            assert "token" not in page.url
            assert b"What the agent sees" in page.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(split_token(url)[0], timeout=WAIT_SECONDS)
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=WAIT_SECONDS) == 0


def test_a_token_of_ones_own_is_taken_from_the_environment_and_never_printed() -> None:
    chosen = "a-token-of-my-own-0123"
    with served("alfworld", AGENTFLY_TOKEN=chosen) as (url, _):
        assert split_token(url)[1] is None
        assert _post(with_token(url, chosen), "/sessions", {})["session"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            _post(with_token(url, "another-token-0123456"), "/sessions", {})


def test_a_weak_token_is_reported_in_a_line() -> None:
    reported = envs("serve", "code", "--token", "short")
    assert reported.exit_code == 2
    assert "at least 16 visible ASCII characters" in reported.output


def _post(url: str, path: str, body: object) -> dict[str, Any]:
    bare, token = split_token(url)
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    data = json.dumps(body).encode()
    request = urllib.request.Request(bare + path, data, headers, method="POST")
    with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
        read: dict[str, Any] = json.load(answer)
        return read


def spec(name: str, *parameters: str, optional: tuple[str, ...] = ()) -> ToolSpec:
    properties = {
        parameter: {"type": "integer" if parameter in ("id", "number") else "string"}
        for parameter in (*parameters, *optional)
    }
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return ToolSpec(name=name, description="", parameters=schema)


@pytest.mark.parametrize(
    ("line", "called"),
    [
        ("search red shoes", ("search", {"query": "red shoes"})),
        ("search[red shoes]", ("search", {"query": "red shoes"})),
        ("search(red shoes)", ("search", {"query": "red shoes"})),
        ("search[shoes (red) [new]]", ("search", {"query": "shoes (red) [new]"})),
        ("search [red] shoes", ("search", {"query": "[red] shoes"})),
        ("buy", ("buy", {})),
        ("buy[]", ("buy", {})),
        ("buy()", ("buy", {})),
        ("put(what=apple where=bowl)", ("put", {"what": "apple", "where": "bowl"})),
        ("put what=apple where='the bowl'", ("put", {"what": "apple", "where": "the bowl"})),
        ("put apple bowl", ("put", {"what": "apple", "where": "bowl"})),
        ("put 'an apple' bowl", ("put", {"what": "an apple", "where": "bowl"})),
        ("put apple on the table", ("put", {"what": "apple", "where": "on the table"})),
        ("put apple don't", ("put", {"what": "apple", "where": "don't"})),
        ("put apple a=b", ("put", {"what": "apple", "where": "a=b"})),
        ("add 7", ("add", {"number": 7})),
        ("type 3 hello you", ("type", {"id": 3, "text": "hello you"})),
        ("press =", ("press", {"key": "="})),
        ("add number=7", ("add", {"number": 7})),
        ("search query=red shoes", ("search", {"query": "red shoes"})),
        ("search query='red shoes'", ("search", {"query": "red shoes"})),
        ("search query='red' or 'blue'", ("search", {"query": "'red' or 'blue'"})),
        ("search color=red", ("search", {"query": "color=red"})),
        ("press Enter id=3", ("press", {"key": "Enter", "id": 3})),
        ("press a b", ("press", {"key": "a b"})),
        ("press key=Enter id=3", ("press", {"key": "Enter", "id": 3})),
        ("scroll up", ("scroll", {"direction": "up"})),
        ("scroll up 3", ("scroll", {"direction": "up", "id": 3})),
    ],
)
def test_a_line_names_the_tool_and_its_arguments(line: str, called: tuple[str, object]) -> None:
    tools = [
        spec("search", "query"),
        spec("buy"),
        spec("put", "what", "where"),
        spec("add", "number"),
        spec("type", "id", "text"),
        spec("press", "key", optional=("id",)),
        spec("scroll", optional=("direction", "id")),
    ]
    message = read_line(line, tools).message
    assert message is not None
    (call,) = message.tool_calls
    assert (call.name, json.loads(call.arguments)) == called


def test_with_one_tool_the_whole_line_is_its_argument() -> None:
    for line in ("x = 1\nx + 1", "print(1)", "python(1) + 2", "code=1"):
        message = read_line(line, [spec("python", "code")]).message
        assert message is not None
        assert json.loads(message.tool_calls[0].arguments) == {"code": line}


@pytest.mark.parametrize(
    ("tool", "usage"),
    [
        (spec("back"), "back"),
        (spec("select", "id", "option"), "select ID OPTION"),
        (spec("press", "key", optional=("id",)), "press KEY [id=ID]"),
        (spec("scroll", optional=("direction", "id")), "scroll [DIRECTION] [ID]"),
    ],
)
def test_the_banner_shows_the_arguments_of_each_tool(tool: ToolSpec, usage: str) -> None:
    assert f"{usage}: " in help_text([tool, spec("open", "url")]).splitlines()


@pytest.mark.parametrize(
    ("game", "is_end"),
    [
        (("alfworld", "actions=text"), False),
        (("webshop", "actions=text", "level=easy"), False),
        (("webshop", "actions=last_line", "level=easy"), False),
        (("webshop", "level=easy"), True),
    ],
)
def test_the_banner_says_what_words_do(game: tuple[str, ...], is_end: bool) -> None:
    command = ["envs", "play", *game]
    played = CliRunner().invoke(app, command, input="/say fly to the moon\nquit\n").output
    assert ("/say … gives your answer in words, and ends the task." in played) is is_end
    assert ("What you type is your action; so is what follows /say." in played) is not is_end
    assert ("over (answered)" in played) is is_end
    assert ("left." in played) is not is_end


def test_a_line_that_names_no_tool_goes_to_the_one_that_acts() -> None:
    tools = [spec("act", "action"), spec("things")]
    message = read_line("go to kitchen", tools).message
    assert message is not None
    assert json.loads(message.tool_calls[0].arguments) == {"action": "go to kitchen"}
    other = read_line("things", tools).message
    assert other is not None
    assert other.tool_calls[0].name == "things"


def test_quit_leaves_unless_a_tool_is_called_so() -> None:
    assert leaves(" Quit ", [spec("act", "action")])
    assert leaves("/quit", [])
    assert not leaves("quit the job", [])
    assert not leaves("exit", [spec("exit")])


def test_with_one_tool_its_name_may_stand_before_the_brackets() -> None:
    message = read_line("act[search[red mug]]", [spec("act", "action")]).message
    assert message is not None
    assert json.loads(message.tool_calls[0].arguments) == {"action": "search[red mug]"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("dance", "'dance' is no tool"),
        ("dance[a waltz]", "'dance' is no tool"),
        ("buy[", "'buy[' is no tool"),
        ("buy it", "takes nothing"),
        ("put x", "what=…"),
        ("/say", "write your answer after /say"),
        ("/say ", "write your answer after /say"),
    ],
)
def test_what_can_not_be_understood_is_reported(line: str, problem: str) -> None:
    tools = [spec("buy"), spec("put", "what", "where")]
    assert problem in str(read_line(line, tools).problem)


@pytest.mark.parametrize("game", [("code",), ("alfworld", "actions=text")])
def test_saying_nothing_does_not_end_the_task(game: tuple[str, ...]) -> None:
    played = CliRunner().invoke(app, ["envs", "play", *game], input="/say\nquit\n").output
    assert "write your answer after /say" in played
    assert played.rstrip().endswith("left.")
