"""Runs that can't learn say why, once, with the way out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.training.learner_cases import make_groups
from tests.training.small_trainer import HELD_OUT, ROWS, agent, one_source, settings, train
from torch import Tensor
from typer.testing import CliRunner

from agentfly import Agent, SamplingParams, Source, ToolCalling, reward, tool
from agentfly.algorithms import advantage, loss
from agentfly.cli.train import NOTHING_LEARNED
from agentfly.cli.train import train as train_command
from agentfly.config import to_toml
from agentfly.errors import FormatError, RunError
from agentfly.observe import RunProgress
from agentfly.observe.finding_rules import FindingKind
from agentfly.observe.findings import Finding, Findings, read_findings
from agentfly.observe.run_folder import FINDINGS, RunFolder
from agentfly.tools import calculator
from agentfly.types import Group, Message, Score, StepMetrics, ToolCall, Turn


class Shown(RunProgress):
    """Keeps what it would show."""

    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


class Calling(ToolCalling):
    """Takes whatever the model writes as a call."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def read(self, message: Message) -> Message:
        call = ToolCall(id="c", name=self.name, arguments="{}")
        return Message(role="assistant", content=message.content, tool_calls=(call,))


@tool
def broken() -> str:
    """Fail."""
    raise KeyError("boom")


@reward
def nothing(final_response: str) -> float:
    """Score nothing."""
    del final_response
    return 0.0


@reward
def with_answer(final_response: str, answer: str) -> float:
    """Read a field."""
    return float(answer in final_response) + len(final_response) / 100


def big(folder: Path, **tables: Any) -> Any:
    return settings(folder, **{"rollout": {"tasks_per_step": 3, "num_chains": 6}, **tables})


def kinds(findings: Any) -> list[tuple[FindingKind, int]]:
    return [(finding.kind, finding.step) for finding in findings]


def only(findings: Any, kind: FindingKind) -> Finding:
    (found,) = (finding for finding in findings if finding.kind is kind)
    assert isinstance(found, Finding)
    return found


def test_equal_rewards_are_reported_once_and_nothing_was_learned(tmp_path: Path) -> None:
    shown = Shown()
    chosen = settings(tmp_path, train={"steps": 3})
    result = train(one_source(nothing), chosen=chosen, progress=shown)
    assert kinds(result.findings) == [
        (FindingKind.FLAT_REWARDS, 2),
        (FindingKind.NOTHING_LEARNED, 3),
    ]
    flat = only(result.findings, FindingKind.FLAT_REWARDS)
    assert flat.sentence.startswith("Every one of the last 12 chains got the reward 0: nothing")
    assert "agentfly sft" in flat.way_out
    assert not result.learned
    assert shown.lines.count(f"step 2: {flat}") == 1
    assert str(flat) in (result.folder / "log.txt").read_text()


def test_a_resumed_run_keeps_what_was_found_and_does_not_repeat_it(tmp_path: Path) -> None:
    train(one_source(nothing), chosen=settings(tmp_path))
    shown = Shown()
    chosen = settings(tmp_path, train={"steps": 4, "lr": 1e-3})
    result = train(one_source(nothing), chosen=chosen, progress=shown, resume=True)
    assert kinds(result.findings)[0] == (FindingKind.FLAT_REWARDS, 2)
    assert not [line for line in shown.lines if "got the reward" in line]


def test_a_run_stopped_before_its_first_checkpoint_says_so_when_resumed(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    RunFolder.create(tmp_path / "small", config=to_toml(chosen)).close()
    shown = Shown()
    train(one_source(), chosen=chosen, progress=shown, resume=True)
    assert shown.lines[1] == (
        f"resuming {tmp_path / 'small'} at step 1: it was stopped before its first checkpoint, and "
        "starts again from the beginning"
    )


@advantage
def divided_by_zero(rewards_G: Tensor) -> Tensor:
    return (rewards_G - rewards_G) / 0.0


@loss
def logarithm_of_zero(logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
    return advantages_N * logprobs_N + (logprobs_N - logprobs_N.detach()).log()


@loss
def root_of_zero(logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
    return advantages_N * logprobs_N + (logprobs_N - logprobs_N.detach()).sqrt()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("divided_by_zero", "the advantage of {} was not finite (NaN or infinite) in"),
        ("logarithm_of_zero", "the loss of {} was not finite (NaN or infinite) in"),
        ("root_of_zero", "the gradient of {} was not finite (NaN or infinite), although its loss"),
    ],
)
def test_numbers_that_are_not_finite_are_reported_and_not_taken_for_equal_rewards(
    tmp_path: Path, name: str, what: str
) -> None:
    path = f"{__name__}:{name}"
    result = train(one_source(), chosen=settings(tmp_path, algorithm={"name": path}))
    assert kinds(result.findings) == [
        (FindingKind.NOT_FINITE, 1),
        (FindingKind.NOTHING_LEARNED, 2),
    ]
    found, nothing_learned = result.findings
    assert found.sentence.startswith(f"1 of 1 update changed nothing: {what.format(path)}")
    assert " function for a" in found.way_out
    assert nothing_learned.way_out == "Other findings say why: not_finite of step 1."
    assert ("tokens." in found.sentence) == (name != "root_of_zero")
    assert read_findings(result.folder / FINDINGS) == result.findings


def test_equal_rewards_are_no_finding_once_rewards_differ(tmp_path: Path) -> None:
    def group(*rewards: float) -> Group:
        chains = [
            replace(chain, score=Score(value=reward))
            for chain, reward in zip(any_group.members, rewards, strict=True)
        ]
        return replace(any_group, members=tuple(chains))

    (any_group,) = make_groups(groups=1, chains=2)
    open_findings = partial(
        Findings.open, tmp_path / FINDINGS, [], with_tools=frozenset(), algorithm="grpo"
    )
    findings = open_findings(step=0)
    learned = StepMetrics(updates=0, metrics={}, seconds={})
    findings.take(1, [group(1.0, 1.0)] * 15, learned)
    assert not findings.found, "30 chains are too few"
    findings = open_findings(step=0)
    findings.take(1, [group(1.0, 1.0)] * 16, learned)
    (found,) = read_findings(tmp_path / FINDINGS)
    assert (found.kind, found.step) == (FindingKind.FLAT_REWARDS, 1)
    assert "harder" in found.way_out
    findings.take(2, [group(1.0, 0.0)], replace(learned, updates=1))
    assert read_findings(tmp_path / FINDINGS) == ()
    findings.take(3, [group(1.0, 1.0)] * 16, learned)
    assert read_findings(tmp_path / FINDINGS) == (), "it has learned to solve them"
    findings.take(4, [group(0.0, 0.0)] * 16, learned)
    assert [found.kind for found in read_findings(tmp_path / FINDINGS)] == [found.kind]


def no_token(turns: Sequence[Turn]) -> list[bool]:
    """Leave out everything."""
    return [False for _ in turns]


def test_a_mask_that_leaves_nothing_is_named(tmp_path: Path) -> None:
    mask = f"{__name__}:no_token"
    result = train(
        one_source(),
        chosen=settings(tmp_path, rollout={"tasks_per_step": 2, "num_chains": 3, "mask": mask}),
    )
    assert kinds(result.findings) == [
        (FindingKind.MASKED_OUT, 1),
        (FindingKind.NOTHING_LEARNED, 2),
    ]
    assert result.findings[0].sentence.startswith(f"The mask {mask!r} left out every sampled token")


def test_a_run_that_learns_finds_nothing(tmp_path: Path) -> None:
    result = train(one_source(), chosen=settings(tmp_path))
    assert result.learned
    assert result.findings == ()


def test_a_tool_that_always_raises_is_named_with_its_error(tmp_path: Path) -> None:
    source = Source(agent=agent(tools=[broken], kind=Calling("broken")), tasks=ROWS)
    shown = Shown()
    result = train(source, chosen=big(tmp_path), progress=shown)
    found = only(result.findings, FindingKind.TOOL_FAILS)
    assert found.step == 1
    assert "All 18 calls of the tool 'broken' failed." in found.sentence
    assert "KeyError: 'boom'" in found.sentence
    assert shown.lines.count("tool 'broken' failed") == 1


def test_calls_of_a_tool_that_does_not_exist_are_reported(tmp_path: Path) -> None:
    source = Source(agent=agent(tools=[broken], kind=Calling("calculator")), tasks=ROWS)
    result = train(source, chosen=big(tmp_path))
    found = only(result.findings, FindingKind.INVALID_CALLS)
    assert "None of 18 tool calls was valid: 18 unknown tool" in found.sentence
    assert "There is no tool 'calculator'" in found.sentence


def test_a_model_that_calls_no_tool_is_reported(tmp_path: Path) -> None:
    source = Source(agent=agent(tools=[broken]), tasks=ROWS)
    result = train(source, chosen=big(tmp_path))
    found = only(result.findings, FindingKind.NO_CALLS)
    assert found.step == 1
    assert "did not call a tool in any of 18 chains" in found.sentence
    assert "sft" in found.way_out


def test_rows_without_the_field_that_the_reward_reads_are_named(tmp_path: Path) -> None:
    rows = [{**row, "answer": "4"} for row in ROWS[:-1]] + ROWS[-1:]
    source = Source(agent=agent(with_answer), tasks=rows)
    result = train(source, chosen=settings(tmp_path, train={"steps": 3}))
    found = only(result.findings, FindingKind.MISSING_FIELD)
    assert "1 of 6 rows lack the field 'answer', which the reward reads: row5." in found.sentence
    assert result.learned


def test_findings_stay_where_too_many_chains_fail(tmp_path: Path) -> None:
    source = Source(agent=agent(with_answer), tasks=ROWS, eval_tasks=HELD_OUT)
    with pytest.raises(RunError, match="6 of 6 chains failed"):
        train(source, chosen=settings(tmp_path))
    (found,) = read_findings(tmp_path / "small" / FINDINGS)
    assert found.kind is FindingKind.MISSING_FIELD
    assert "6 of 6 rows lack the field 'answer'" in found.sentence


def test_failures_of_another_cause_are_reported_with_the_first(tmp_path: Path) -> None:
    @reward
    def picky(final_response: str, task: Any) -> float:
        if task.id == "row1":
            raise ZeroDivisionError("never")
        return len(final_response) / 10

    source = Source(agent=agent(picky), tasks=ROWS)
    result = train(source, chosen=settings(tmp_path, train={"steps": 3}))
    found = only(result.findings, FindingKind.FAILED_CHAINS)
    assert "3 of 6 chains failed" in found.sentence
    assert "ZeroDivisionError: never" in found.sentence


def test_damaged_findings_are_reported(tmp_path: Path) -> None:
    (tmp_path / FINDINGS).write_text('{"findings": [{"kind": "lost"}]}')
    with pytest.raises(FormatError, match="is damaged"):
        read_findings(tmp_path / FINDINGS)


def test_the_command_ends_with_a_code_of_its_own_where_nothing_was_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    row = {"question": "Say a word.", "answer": "no word that it says"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    file = tmp_path / "run.toml"
    file.write_text(
        'name = "flat"\nmodel.name = "tiny-random"\ntrain.steps = 1\ntrack.trackers = []\n'
        "rollout = { tasks_per_step = 1, num_chains = 2, max_tokens = 4 }\n"
        '[[source]]\ntasks = "rows.jsonl"\nreward = "exact_match"\n'
    )
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(train_command)
    run = CliRunner().invoke(app, [str(file)])
    assert run.exit_code == NOTHING_LEARNED, run.output
    assert "1 step done. The model: " in run.stdout
    assert "Findings (" in run.stdout
    assert "  step 1: Nothing was learned: no update changed the weights in 1 step." in run.stdout


def test_tools_that_tiny_never_saw_are_reported_before_the_first_step(tmp_path: Path) -> None:
    small = Agent(tools=[calculator, broken], reward=nothing, sampling=SamplingParams(max_tokens=4))
    chosen = settings(tmp_path, model={"name": "tiny"}, train={"steps": 1})
    result = train(Source(agent=small, tasks=ROWS), chosen=chosen)
    found = only(result.findings, FindingKind.UNSEEN_TOOLS)
    assert found.step == 0
    assert "The model 'tiny' never saw the tools broken, and will not call them" in found.sentence
