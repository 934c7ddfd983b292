"""What `print` shows of chains and results: short, readable, harmless."""

from pathlib import Path

from tests.observe.finished_groups import chain, group, scored, turn

from agentfly.agents import RunResult
from agentfly.training import StoppedBy, TrainResult
from agentfly.types import StopReason, ToolStatus


def test_a_trajectory_is_a_line_and_its_text_a_line_for_each_message() -> None:
    said = chain(1.0, turn(ToolStatus.OK, text=""), turn(index=1, text="It is 42.", tokens=900))
    one = group("6*7", [said]).members[0]
    assert repr(one) == "<Trajectory 6*7/0/0: reward 1.00, 2 turns, 904 tokens, answered>"
    assert str(one).splitlines()[1:] == [
        "  system: Use the tool.",
        "  user: What is 6*7?",
        '  call: calculator({"expression": "6*7"})',
        "  tool: 42",
        "  assistant: It is 42.",
    ]


def test_a_long_chain_stays_short() -> None:
    turns = [turn(index=i, text=f"{i}\x1b " + "word " * 1000) for i in range(500)]
    text = str(group("6*7", [chain(0.5, *turns)]).members[0])
    assert len(text) < 2000
    assert "490 messages more" in text
    assert "499" in text
    assert "\x1b" not in text


def test_a_failed_chain_names_its_failure() -> None:
    failed = chain(None, stop=StopReason.ENV_CRASHED, error="EnvError: gone")
    one = group("6*7", [failed]).members[0]
    assert "unscored, 0 turns, 0 tokens, env_crashed" in repr(one)
    assert str(one).endswith("failed: EnvError: gone")


def test_a_group_and_a_result_are_short_too() -> None:
    some = scored("6*7", 1.0, 0.0, None)
    assert repr(some) == "<Group 6*7/0: 3 chains, mean reward 0.50, from 0.00 to 1.00>"
    assert len(str(some).splitlines()) == 4
    assert repr(scored("a", None)) == "<Group a/0: 1 chain, unscored>"
    text = str(RunResult(groups=(some,)))
    assert text.startswith("<RunResult of 1 rows, 3 chains>\nchains     3 (2 scored)")


def test_a_training_result_says_where_the_model_is(tmp_path: Path) -> None:
    result = TrainResult(folder=tmp_path, steps=3, stopped_by=StoppedBy.TARGET)
    assert str(result) == (
        f"3 steps in {tmp_path}, ended by its target\nmodel: {tmp_path}/checkpoints/step_3"
    )
