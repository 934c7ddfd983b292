"""The tasks of a run's sources: a split that is not there is needed only when it is used."""

from dataclasses import replace

import pytest

from agentfly import Agent, Source
from agentfly.agents.source_parts import resolve_source
from agentfly.cli.validate import read_tasks
from agentfly.config import EvalSettings, SourceSettings
from agentfly.errors import ConfigError
from agentfly.training.task_mix import read_sources

ROWS = [{"id": "1", "question": "2 + 2?", "answer": "4"}]


def not_there() -> list[dict[str, str]]:
    raise ConfigError("no games in 'here': expected the folder valid_unseen")


def test_held_out_tasks_are_read_only_if_a_run_evaluates() -> None:
    source = Source(agent=Agent("tiny-random"), tasks=ROWS, eval_tasks=not_there)
    never = EvalSettings(every=0, at_start=False, at_end=False)
    assert not never.is_on
    assert len(read_sources([source], never).tasks) == 1
    assert EvalSettings(every=0).is_on
    with pytest.raises(ConfigError, match="valid_unseen"):
        read_sources([source], EvalSettings())


def test_a_limit_of_held_out_tasks_holds_for_each_source() -> None:
    rows = [{"id": str(number), "question": "2 + 2?", "answer": "4"} for number in range(10)]
    agent = Agent("tiny-random")
    sources = [
        Source(name=name, agent=agent, tasks=ROWS, eval_tasks=held_out)
        for name, held_out in (("long", rows), ("short", rows[:2]))
    ]
    mix = read_sources(sources, EvalSettings(max_tasks=4))
    # Two sources with a task "0" each: ids are then disambiguated by the source.
    assert [(one.source, one.id[-1]) for one in mix.eval_tasks] == [
        *(("long", number) for number in "0257"),
        *(("short", number) for number in "01"),
    ]


def test_held_out_tasks_are_validated_only_if_those_to_train_on_are_not_enough() -> None:
    parts = resolve_source(SourceSettings(environment="code", options={"count": 3}))
    missing = replace(parts, eval_tasks=not_there)
    assert len(read_tasks(missing, 2)) == 2
    with pytest.raises(ConfigError, match="valid_unseen"):
        read_tasks(missing, 4)
    assert len(read_tasks(parts, None)) == 3 + 64
