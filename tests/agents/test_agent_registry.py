import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentfly.agents import Agent, ReAct, ToolCalling, resolve_run
from agentfly.agents.registry import (
    find_group_reward,
    find_kind,
    find_mask,
    find_reward,
    find_tools,
)
from agentfly.agents.source_parts import resolve_source
from agentfly.chat import CHATML_TOKENS, MASK_POLICIES, ByteTokenizer
from agentfly.config import RunSettings, SettingsError, SourceSettings
from agentfly.engines import ScriptedEngine
from agentfly.environments import find_environment
from agentfly.errors import ConfigError
from agentfly.tasks import load_tasks
from agentfly.tools import calculator
from agentfly.types import EnvSpec

MINE = '''
from agentfly import EnvSpec, ToolCalling, group_reward, reward, tool
from agentfly.chat import per_turn

@tool
def search(query: str) -> str:
    """Search."""
    return query.upper()

def forgotten(query: str) -> str:
    """Search."""
    return query

@reward
def correct(final_response: str) -> float:
    return float(final_response == "IT IS 4.")

@group_reward
def longest(final_responses: list[str]) -> list[float]:
    return [float(len(text)) for text in final_responses]

class Polite(ToolCalling):
    pass

class Demanding(ToolCalling):
    def __init__(self, wish: str) -> None:
        super().__init__()

class Room:
    def reset(self, task, seed): return "hello"
    def step(self, action): return action
    def close(self): pass

def make_room(): return Room()

big_room = EnvSpec(make_room)
polite = Polite(system_prompt="Please.")

def first_only(turns): return [turn.index == 0 for turn in turns]

long = per_turn(lambda turn: turn.index > 3)

limit = 3
'''


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run's settings, with a user's module in it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "named_mine", raising=False)
    (tmp_path / "named_mine.py").write_text(MINE)
    return tmp_path


def test_what_is_built_in_is_found_by_its_name() -> None:
    assert find_tools("calculator") == (calculator,)
    for name in ("exact_match", "math_equivalence", "numeric_match", "qa_exact_match", "qa_f1"):
        assert find_reward(name).name == name
    assert isinstance(find_kind("react"), ReAct)
    assert find_mask("no_reasoning") is MASK_POLICIES["no_reasoning"]


def test_what_a_user_wrote_is_found_by_its_import_path(base: Path) -> None:
    assert [t.spec.name for t in find_tools("named_mine:search", base=base)] == ["search"]
    assert find_reward("named_mine:correct", base=base).name == "correct"
    assert find_group_reward("named_mine:longest", base=base).name == "longest"
    assert type(find_kind("named_mine:Polite", base=base)).__name__ == "Polite"
    own = find_kind("named_mine:polite", base=base)
    assert isinstance(own, ToolCalling)
    assert own.system_prompt == "Please."
    room = find_environment("named_mine:Room", base=base)
    assert isinstance(room, EnvSpec)
    assert room.make().reset(None, None) == "hello"
    assert find_environment("named_mine:make_room", base=base).name == "make_room"
    assert find_environment("named_mine:big_room", base=base).name == "make_room"
    assert find_mask("named_mine:first_only", base=base)([]) == []


async def test_named_parts_make_an_agent_that_runs(base: Path) -> None:
    engine = ScriptedEngine(["IT IS 4."], tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(
        engine,
        tools=find_tools("named_mine:search", base=base),
        reward=find_reward("named_mine:correct", base=base),
        kind=find_kind("named_mine:Polite", base=base),
        system_prompt="Shout.",
    )
    [trajectory] = (await agent.run("What is 2+2?")).trajectories
    assert trajectory.score is not None
    assert trajectory.score.value == 1.0
    assert trajectory.messages[0].content == "Shout."


@pytest.mark.parametrize(
    ("find", "name", "said"),
    [
        (
            find_tools,
            "calculater",
            r"unknown tool 'calculater'\. Did you mean 'calculator'\? Known: ",
        ),
        (
            find_tools,
            "named_mine:serach",
            r"named_mine has no tool 'serach'\. Did you mean 'search",
        ),
        (find_tools, "named_mine:x", r"named_mine has no tool 'x'\. Known: .*search\b"),
        (
            find_tools,
            "named_mine:correct",
            r"is no tool, but of type FunctionReward: name a function",
        ),
        (
            find_tools,
            "named_min:search",
            r"no module 'named_min' in .* Did you mean 'named_mine'\?",
        ),
        (find_reward, "exactmatch", r"unknown reward 'exactmatch'\. Did you mean 'exact_match'\?"),
        (find_reward, "named_mine:corect", r"no reward 'corect'.*'correct'\? Known: correct\.$"),
        (find_reward, "named_mine:forgotten", r"no reward, but of type function: .* @reward"),
        (find_reward, "named_mine:longest", r"no reward, but of type FunctionGroupReward"),
        (find_group_reward, "best", r"unknown group reward 'best'\. Known: none\. One of your own"),
        (find_group_reward, "named_mine:correct", r"is no group reward, .* @group_reward"),
        (find_kind, "raect", r"unknown kind of agent 'raect'\. Did you mean 'react'\?"),
        (
            find_kind,
            "named_mine:Room",
            r"no kind of agent, but of type type: inherit from agentfly",
        ),
        (
            find_kind,
            "named_mine:Demanding",
            r"calling named_mine:Demanding without arguments raised",
        ),
        (find_environment, "serch", r"unknown environment 'serch'\. Did you mean 'search'\?"),
        (find_environment, "named_mine:polite", r"no environment, .*name a class, a function that"),
        (find_environment, "named_mine:limit", r"is no environment, but of type int"),
        (find_mask, "last_turn", r"unknown mask policy 'last_turn'\. Did you mean 'last_turn_only"),
        (
            find_mask,
            "named_mine:lng",
            r"no mask policy 'lng'\. Did you mean 'long'\? Known: (?!.*(Polite|search)).*\blong\b",
        ),
        (find_mask, "named_mine:Polite", r"is no mask policy, but of type type: name a function"),
        (find_mask, "named_mine:limit", r"is no mask policy, but of type int: name a function"),
    ],
)
def test_missing_and_wrong_names_are_reported(
    base: Path, find: Callable[..., object], name: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        find(name, base=base)


def test_all_unknown_names_of_a_run_are_reported(base: Path) -> None:
    (base / "a.jsonl").write_text('{"question": "What is 2+2?"}\n')
    good = {
        "tasks": "a.jsonl",
        "tools": ["finish", "named_mine:search"],
        "reward": "named_mine:correct",
    }
    bad = {
        "name": "bad",
        "tasks": "b.jsonl",
        "kind": "magic",
        "tools": ["finish", "nothing"],
        "reward": "none",
        "group_reward": "named_mine:correct",
        "environment": "named_mine:limit",
    }
    tables = {"name": "x", "model": {"name": "tiny"}, "source": [good, bad]}
    settings = RunSettings.model_validate({**tables, "rollout": {"mask": "some"}})
    with pytest.raises(SettingsError) as caught:
        resolve_run(settings, base=base)
    assert [problem.key for problem in caught.value.problems] == [
        "rollout.mask",
        "source.1.kind",
        "source.1.tools.1",
        "source.1.reward",
        "source.1.group_reward",
        "source.1.environment",
        "source.1.tasks",
    ]
    fine = resolve_run(RunSettings.model_validate({**tables, "source": [good]}), base=base)
    assert [tool.name for tool in fine.sources[0].agent.tools.specs] == ["finish", "search"]
    assert [task.messages[0].content for task in load_tasks(fine.sources[0].tasks)] == [
        "What is 2+2?"
    ]


def test_paths_among_an_environments_options_are_looked_for_beside_the_settings(
    tmp_path: Path,
) -> None:
    line = '{"task_id": 1, "question": "How much is 2+2?", "answer": "2+2=4 #### 4"}\n'
    (tmp_path / "sums.jsonl").write_text(line)
    options = {"tasks": "gsm8k", "file": "sums.jsonl", "eval_file": str(tmp_path / "sums.jsonl")}
    parts = resolve_source(SourceSettings(environment="code", options=options), base=tmp_path)
    assert len(load_tasks(parts.tasks)) == len(load_tasks(parts.eval_tasks)) == 1
