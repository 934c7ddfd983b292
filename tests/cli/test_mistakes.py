"""Typical mistakes of a first hour: each message says what, got, expected, and the way out."""

import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentfly import Agent, OpenAIChat, tool
from agentfly.cli.main import app
from agentfly.errors import ConfigError
from agentfly.runtime.http_client import Endpoint
from agentfly.runtime.http_retry import ONCE

PARTS = '''
from agentfly import reward

def search(query: str) -> str:
    """Search."""
    return query

def undescribed(query: str) -> str:
    return query

def untyped(query) -> str:
    """Search."""
    return query

def compare(first: str, second: str) -> str:
    """Compare."""
    return first

@reward
def by_unit(final_response: str, unit: str) -> bool:
    return unit in final_response

@reward
def words(final_response: str) -> float:
    return "good"

def correct(final_response: str) -> bool:
    return True

class Box:
    def look(self) -> str:
        """Look inside."""
        return "empty"

class Sized:
    def __init__(self, size: int) -> None:
        self.size = size

    def look(self) -> int:
        """Look at the size."""
        return self.size
'''
FILES = {
    "mistaken_parts.py": PARTS,
    "sums.jsonl": '{"question": "2+2?", "answer": "4"}\n',
    "units.jsonl": '{"question": "2+2?", "answer": "4", "unit": "m"}\n',
    "empty.jsonl": "",
    "broken.jsonl": '{"question": "2+2?", "answer": "4"}\n{"question": 2+2?}\n',
    "numbers.jsonl": '{"question": 4}\n',
}


class Inventory:
    def __init__(self) -> None:
        self.items: list[str] = []

    def put(self, item: str) -> int:
        """Put an item into the inventory."""
        self.items.append(item)
        return len(self.items)


def train(
    settings: str = "",
    source: str = 'reward = "numeric_match"',
    *,
    tasks: str = "sums.jsonl",
    arguments: tuple[str, ...] = ("--dry-run",),
) -> Callable[[Path], str]:
    """Return what writes a file of settings, runs it, and returns the message."""

    def run(folder: Path) -> str:
        text = f'name = "sums"\nmodel.name = "tiny"\n{settings}\n[[source]]\ntasks = "{tasks}"\n'
        (folder / "run.toml").write_text(text + source)
        return command("train", "run.toml", *arguments)

    return run


def command(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def refused(act: Callable[[], object]) -> Callable[[Path], str]:
    """Return what runs Python code that must be refused, and returns the message."""

    def run(folder: Path) -> str:
        del folder
        with pytest.raises(ConfigError) as caught:
            act()
        return str(caught.value)

    return run


def begun(folder: Path) -> str:
    (folder / "runs" / "sums").mkdir(parents=True)
    (folder / "runs" / "sums" / "run.json").write_text("{}")
    return train(arguments=())(folder)


def dead_server(folder: Path) -> str:
    del folder
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = Endpoint(url=f"http://127.0.0.1:{port}", retry=ONCE)
    chain = Agent(OpenAIChat(endpoint, model="m")).run_sync("Hi", retries=0).trajectories[0]
    return chain.error or ""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    make: Callable[[Path], str]
    what: str
    got: str
    expected: str
    way_out: str


TOOLS = 'reward = "numeric_match"\ntools = ["{}"]'

MISTAKES = {
    "wrong type of a setting": Mistake(
        make=train('train.steps = "many"'),
        what="train.steps",
        got="got 'many'",
        expected="must be a whole number",
        way_out='line 3 | train.steps = "many"',
    ),
    "value out of range": Mistake(
        make=train("rollout.temperature = -1"),
        what="rollout.temperature",
        got="got -1",
        expected="must be greater than 0",
        way_out="line 3 | rollout.temperature = -1",
    ),
    "a name of trl": Mistake(
        make=train("train.learning_rate = 1e-4"),
        what="train.learning_rate: unknown key",
        got="line 3 | train.learning_rate = 1e-4",
        expected="train.lr",
        way_out="Did you mean train.lr?",
    ),
    "text without quotes": Mistake(
        make=train("folder = runs"),
        what="run.toml is not TOML",
        got="line 3 | folder = runs\n                    ^",
        expected="Texts are in quotes",
        way_out='name = "sums"',
    ),
    "a table as a text": Mistake(
        make=train('algorithm = "grpo"'),
        what="algorithm",
        got="got 'grpo'",
        expected="must be a table",
        way_out='write algorithm.name = "grpo"',
    ),
    "unknown algorithm": Mistake(
        make=train('algorithm.name = "gpro"'),
        what="algorithm.name: unknown algorithm",
        got="'gpro'",
        expected="Known: cispo, dapo",
        way_out="Did you mean 'grpo'?",
    ),
    "a group of one": Mistake(
        make=train("rollout.num_chains = 1"),
        what="grpo compares the chains of a task",
        got="got 1",
        expected="it needs at least 2",
        way_out="or choose an algorithm without groups, such as reinforce",
    ),
    "missing settings": Mistake(
        make=lambda _: command("train", "rnu.toml"),
        what="there is no file",
        got="'rnu.toml'",
        expected="TOML files in '.': run.toml",
        way_out="Did you mean 'run.toml'?",
    ),
    "missing tasks": Mistake(
        make=train(tasks="sms.jsonl"),
        what="source.0.tasks",
        got="there is no 'sms.jsonl'",
        expected="Expected a file",
        way_out="Did you mean 'sums.jsonl'?",
    ),
    "empty tasks": Mistake(
        make=train(tasks="empty.jsonl"),
        what="'empty.jsonl' holds no tasks",
        got="got an empty file",
        expected='expected rows such as {"question": ',
        way_out="Write some, or name another file",
    ),
    "a row that is no JSON": Mistake(
        make=train(tasks="broken.jsonl"),
        what="broken.jsonl:2 is not JSON",
        got='{"question": 2+2?}',
        expected="Expected one object in a line",
        way_out="correct the line, or take it out",
    ),
    "a question that is no text": Mistake(
        make=train(tasks="numbers.jsonl"),
        what="numbers.jsonl:1: `question`",
        got="got int: 4",
        expected="must be a string",
        way_out="line 5 | tasks",
    ),
    "a tool without a docstring": Mistake(
        make=train(source=TOOLS.format("mistaken_parts:undescribed")),
        what="tool 'undescribed'",
        got="has no description",
        expected="the model is shown one",
        way_out="write a docstring, or pass description=",
    ),
    "a tool without annotations": Mistake(
        make=train(source=TOOLS.format("mistaken_parts:untyped")),
        what="parameter 'query' of tool 'untyped'",
        got="has no annotation",
        expected="write its type",
        way_out="for example `query: str`",
    ),
    "an unknown tool": Mistake(
        make=train(source=TOOLS.format("calculater")),
        what="unknown tool",
        got="'calculater'",
        expected="Known: answer, calculator, finish",
        way_out="Did you mean 'calculator'?",
    ),
    "a module that is not there": Mistake(
        make=train(source=TOOLS.format("mistaken_part:search")),
        what="there is no module",
        got="'mistaken_part'",
        expected="nor is it installed",
        way_out="Did you mean 'mistaken_parts'?",
    ),
    "a name that the module lacks": Mistake(
        make=train(source=TOOLS.format("mistaken_parts:serch")),
        what="mistaken_parts has no tool",
        got="'serch'",
        expected="Known: ",
        way_out="Did you mean 'search'?",
    ),
    "an unknown kind": Mistake(
        make=train(source='reward = "numeric_match"\nkind = "tag"'),
        what="unknown kind of agent",
        got="'tag'",
        expected="Known: code, react, tags, tools",
        way_out="Did you mean 'tags'?",
    ),
    "tags with a tool of two parameters": Mistake(
        make=train(source=TOOLS.format("mistaken_parts:compare") + '\nkind = "tags"'),
        what="tool 'compare'",
        got="got first, second",
        expected="must have exactly one required parameter",
        way_out="use kind='tools' or 'react'",
    ),
    "a reward that is a plain function": Mistake(
        make=train(source='reward = "mistaken_parts:correct"'),
        what="mistaken_parts:correct is no reward",
        got="of type function",
        expected="name the reward that it makes",
        way_out="decorate it with @reward",
    ),
    "a parameter that no row has": Mistake(
        make=train(source='reward = "mistaken_parts:by_unit"'),
        what="reward 'by_unit' reads the field 'unit', which 1 of 1 tasks lack: row 1",
        got="has: question, answer",
        expected="Add 'unit' to those rows",
        way_out="or give it a default",
    ),
    "a held-out row without the field": Mistake(
        make=train(
            tasks="units.jsonl",
            source='reward = "mistaken_parts:by_unit"\neval_tasks = "sums.jsonl"',
        ),
        what="reads the field 'unit', which 1 of 1 held-out tasks lack: row 1",
        got="has: question, answer",
        expected="Add 'unit' to those rows",
        way_out="or give it a default",
    ),
    "a reward that returns a text": Mistake(
        make=train(source='reward = "mistaken_parts:words"'),
        what="reward 'words' returned",
        got="str: 'good'",
        expected="expected a finite number, a bool",
        way_out="return float(...) of it",
    ),
    "a missing model": Mistake(
        make=train(arguments=("--dry-run", "model.name=models/mine/last")),
        what="model.name: there is no folder",
        got="'models/mine/last'",
        expected="A model is a local folder, one of these names, or a hub id",
        way_out="Known: smollm2-135m-instruct, tiny",
    ),
    "a resume of a run that was not started": Mistake(
        make=train(arguments=("--resume",)),
        what="there is no run to resume in runs/sums",
        got="it has no run.json",
        expected="give the name of one that was started",
        way_out="Start it without --resume",
    ),
    "a run's name that is taken": Mistake(
        make=begun,
        what="runs/sums",
        got="holds a run already",
        expected="give this one another name",
        way_out="agentfly runs rm runs/sums",
    ),
    "a run's name that is a file": Mistake(
        make=train(arguments=("folder=.", "name=sums.jsonl")),
        what="sums.jsonl",
        got="is a file",
        expected="Give this run another name (name=…)",
        way_out="or move it away",
    ),
    "a project inside of a file": Mistake(
        make=lambda _: command("init", "sums.jsonl/prices"),
        what="'sums.jsonl/prices' can't be used",
        got="Not a directory",
        expected="Check that its folder exists",
        way_out="and that you may read and write there",
    ),
    "an environment that needs arguments": Mistake(
        make=train(source='reward = "numeric_match"\nenvironment = "mistaken_parts:Sized"'),
        what="source.0.environment: Sized can't be made",
        got="missing a required argument: 'size'",
        expected="each chain gets an instance of its own",
        way_out="give the parameters defaults, or name something that fills them",
    ),
    "a plain class without a reward": Mistake(
        make=train(source='environment = "mistaken_parts:Box"'),
        what="source.0.reward",
        got="missing",
        expected="nothing tells good chains from bad ones",
        way_out="Name a reward, a group_reward, or an environment that scores",
    ),
    "an environment's instance": Mistake(
        make=refused(lambda: Agent(environment=Inventory())),  # type: ignore[arg-type]
        what="environment=",
        got="got an instance",
        expected="takes a class",
        way_out="Pass Inventory",
    ),
    "a bound method of an object with state": Mistake(
        make=refused(lambda: Agent(tools=[tool(Inventory().put)])),
        what="tool 'put' is a method of one Inventory object",
        got="whose state all chains would share",
        expected="For an instance per chain pass the class's method, tools=[Inventory.put]",
        way_out="if sharing is meant, pass tool(obj.put, shared=True)",
    ),
    "a server that is not there": Mistake(
        make=dead_server,
        what="the connection broke: ConnectError",
        got="http://127.0.0.1:",
        expected="Expected a server there",
        way_out="is it started, and is its address right?",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_message_says_what_got_expected_and_the_way_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mistaken_parts", raising=False)
    monkeypatch.chdir(tmp_path)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    (tmp_path / "run.toml").touch()
    mistake = MISTAKES[name]
    message = mistake.make(tmp_path)
    parts = (mistake.what, mistake.got, mistake.expected, mistake.way_out)
    assert [part for part in parts if part not in message] == [], message
    assert "Traceback" not in message


def test_there_are_twenty_and_more() -> None:
    assert len(MISTAKES) >= 20
