"""The trial at the start of a run: an example for models that call no tools, and for no others."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.training.small_trainer import settings, train
from tests.training.test_findings import Shown

from agentfly import Agent, SamplingParams, Source, ToolCalling, tool
from agentfly.agents.kind import WorkedExample
from agentfly.agents.trial_file import read_trials
from agentfly.agents.worked_example import call_opening
from agentfly.chat import TemplateRenderer
from agentfly.errors import ConfigError, FormatError
from agentfly.observe.recorded_run import RecordedRun
from agentfly.rewards import numeric_match
from agentfly.tools import calculator
from agentfly.tools.builtin import calculate
from agentfly.training.tool_trial import needs_trial, where_none_is_found
from agentfly.types import Message, Task

NUMBERS = (23, 31, 47, 52, 68, 75, 84, 96)
ROWS = [{"id": f"{a}+11", "question": f"What is {a}+11?", "answer": str(a + 11)} for a in NUMBERS]
TASKS = [Task.from_row(row) for row in ROWS]


@tool
def compute(expression: str) -> str:
    """Compute an expression.

    Args:
        expression: What to compute.
    """
    return str(calculate(expression))


def source(*tools: Any, **more: Any) -> Source:
    agent = Agent(
        tools=tools, reward=numeric_match(), sampling=SamplingParams(max_tokens=48), max_turns=2
    )
    return Source(agent=agent, tasks=ROWS, **more)


def trained(folder: Path, given: Source, shown: Shown, **more: Any) -> Path:
    steps = {"steps": 2 if more.get("resume") else 1}
    chosen = settings(
        folder, model={"name": "tiny"}, train=steps, rollout={"tasks_per_step": 1, "num_chains": 2}
    )
    return train(given, chosen=chosen, progress=shown, **more).folder


def opening(run: Path, step: int) -> Sequence[Message]:
    from agentfly import RunResult

    chains = RunResult.load(run / "trajectories" / f"step_{step}.jsonl").trajectories
    return chains[0].messages


def test_a_model_that_calls_its_tools_gets_no_example(tmp_path: Path) -> None:
    shown = Shown()
    run = trained(tmp_path, source(calculator), shown)
    assert any("no example is needed" in line for line in shown.lines)
    (trial,) = read_trials(run / "example.json").values()
    assert (trial.chains, trial.example) == (16, None)
    assert trial.calling >= 4
    assert [message.role for message in opening(run, 1)] == ["user"]


def test_a_model_that_does_not_is_shown_a_solved_task_and_a_resumed_run_the_same(
    tmp_path: Path,
) -> None:
    shown = Shown()
    run = trained(tmp_path, source(compute), shown)
    (trial,) = read_trials(run / "example.json").values()
    assert trial.calling == 0, "tiny calls `calculator`, whatever tools it is given"
    assert trial.example is not None, shown.lines
    asked, call, result, answer = trial.example.messages
    (task,) = (task for task in TASKS if task.id == trial.example.task_id)
    assert asked == task.messages[0]
    assert call.tool_calls[0].name == "compute"
    assert result.content == task.fields["answer"]
    assert task.fields["answer"] in answer.content
    (announced,) = (line for line in shown.lines if "worked example" in line)
    assert f"assistant: compute({call.tool_calls[0].arguments})" in announced
    assert f"user: {asked.content}" in announced
    assert len(list(RecordedRun(run).trial_file.read())) == 17, "16 that were sampled, one copied"
    decided = (run / "example.json").read_bytes()

    again = Shown()
    trained(tmp_path, source(compute), again, resume=True)
    assert not [line for line in again.lines if "does the model call" in line]
    assert (run / "example.json").read_bytes() == decided
    for step in (1, 2):
        before = opening(run, step)
        assert len(before) in (1, 5), "without it only for the task that it solves"


def test_a_source_can_do_without(tmp_path: Path) -> None:
    shown = Shown()
    run = trained(tmp_path, source(compute, example="never"), shown)
    assert not (run / "example.json").exists()


def test_only_what_could_use_an_example_is_tried() -> None:
    def wanted(given: Source, tasks: Sequence[Task] = TASKS) -> bool:
        return needs_trial(given, tasks)

    assert wanted(source(compute))
    assert not wanted(source())
    assert not wanted(source(compute, example="never"))
    shown = Task.from_row(
        {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    )
    assert not wanted(source(compute), [shown])
    agent = Agent(tools=[compute], reward=numeric_match(), kind="react")
    assert not wanted(replace(source(compute), agent=agent))


def test_an_example_follows_the_system_message_and_is_left_out_of_its_own_task() -> None:
    def say(role: Any, text: str) -> Message:
        return Message(role=role, content=text)

    example = WorkedExample(messages=(say("user", "a"), say("assistant", "b")), task_id="own")
    messages = (say("system", "s"), say("user", "q"))
    kind = ToolCalling(system_prompt="first", example=example)
    other, own = (Task(id=name, messages=messages) for name in ("other", "own"))
    assert [m.content for m in kind.open(other, (), None)] == ["first\n\ns", "a", "b", "q"]
    assert [m.content for m in kind.open(own, (), None)] == ["first\n\ns", "q"]
    with pytest.raises(ConfigError, match="makes its own prompt"):
        Agent(kind=_Own()).with_example(example)


class _Own:
    def open(self, *_: object) -> list[Message]:
        return []

    def read(self, message: Message) -> Message:
        return message

    def reply(self, *_: object) -> list[Message]:
        return []


def test_a_call_is_begun_in_the_models_own_format() -> None:
    renderer = Agent("tiny").model.renderer
    assert isinstance(renderer, TemplateRenderer)
    begun = call_opening(renderer, compute.spec)
    assert begun is not None
    assert begun.endswith('"expression": "')
    assert '"compute"' in begun


def test_where_no_example_is_found_the_message_has_the_rows_to_write() -> None:
    said = where_none_is_found(compute.spec)
    for part in ('kind = "tags"', "<compute>…</compute>", "<information>RESULT", "--trial"):
        assert part in said

    @tool
    def convert(amount: float, unit: str) -> str:
        """Convert."""
        return f"{amount} {unit}"

    said = where_none_is_found(convert.spec)
    for part in ('kind = "react"', "Action: convert", "Observation: RESULT", "Final Answer"):
        assert part in said


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "example.json"
    file.write_text(json.dumps({"sources": {"default": {"chains": 1}}}))
    with pytest.raises(FormatError, match=r"example.json is damaged: 'messages'"):
        read_trials(file)
