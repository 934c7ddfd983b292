"""`agentfly envs play alfworld` and `… scienceworld`, as a person plays them in a terminal."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.terminal import WAIT_SECONDS, Terminal, agentfly
from tests.environments.scienceworld.scienceworld_play import needs_simulator

from agentfly.environments.alfworld.engine.game import Game
from agentfly.environments.alfworld.engine.solver import solve
from agentfly.environments.alfworld.tasks import generated_rows, load_script
from agentfly.runtime.process_registry import FOLDER_VARIABLE, Record, records

ALFWORLD = ("alfworld", "size=small", 'task_types=["pick_heat_then_place_in_recep"]')
SCIENCEWORLD = (
    "scienceworld",
    'tasks=["find-non-living-thing"]',
    'simplifications=["easy"]',
    "helpers=false",
)
PROMPT = r"\n> $"


@pytest.fixture(autouse=True)
def own_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a record of the command's child processes that holds nobody else's."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "processes"))


def answered(terminal: Terminal, line: str) -> str:
    terminal.type(f"{line}\n")
    return terminal.wait_for(PROMPT)


def left_behind(process: "subprocess.Popen[bytes]") -> list[Record]:
    """Wait for the command's end, and return what it started and did not end."""
    assert process.wait(timeout=WAIT_SECONDS) == 0
    return records()


def test_a_person_wins_a_game() -> None:
    (row,) = generated_rows(
        1, split="train", task_types=["pick_heat_then_place_in_recep"], size="small", rooms="own"
    )
    solution = solve(Game.of(load_script(row)))
    assert solution is not None
    *first, last = solution
    with agentfly("envs", "play", *ALFWORLD, "show_commands=true") as (terminal, process):
        shown = terminal.wait_for(PROMPT)
        assert f"Your task is to: {row['goal']}" in shown
        assert "You can: go to " in shown
        assert "you see nothing" in answered(terminal, "look")
        assert "Nothing happens." in answered(terminal, "fly to the moon")
        for command in first:
            assert "Nothing happens." not in answered(terminal, command)
        terminal.type(f"{last}\n")
        terminal.wait_for(r"over \(tool_ended\)\. Reward: 1\b")
        assert left_behind(process) == []


def test_a_person_asks_for_the_commands_that_are_possible() -> None:
    with agentfly("envs", "play", "alfworld") as (terminal, process):
        assert "commands: List all commands" in terminal.wait_for(PROMPT)
        assert "Looking quickly around you" in answered(terminal, "look")
        assert "You are not carrying anything." in answered(terminal, "act inventory")
        assert "help, inventory, look" in answered(terminal, "commands")
        terminal.type("/say I give up\n")
        terminal.wait_for(r"Reward: 0\b")
        assert left_behind(process) == []


@needs_simulator
def test_a_person_finishes_an_experiment() -> None:
    with agentfly("envs", "play", *SCIENCEWORLD) as (terminal, process):
        shown = terminal.wait_for(PROMPT)
        assert "Your task is to find a(n) non-living thing" in shown
        assert "move it to the red box in the kitchen" in shown
        assert "This room is called the hallway" in answered(terminal, "look around")
        assert "Did you mean: pick up picture" in answered(terminal, "pickup picture")
        assert "You focus on the picture" in answered(terminal, "focus on picture")
        assert "to the inventory" in answered(terminal, "pick up picture")
        assert "You teleport to the kitchen" in answered(terminal, "teleport to kitchen")
        (jvm,) = records()
        assert jvm.child is not None
        assert jvm.child.alive
        terminal.type("move picture to red box\n")
        terminal.wait_for(r"over \(tool_ended\)\. Reward: 1\b")
        assert left_behind(process) == []
        assert not jvm.child.alive


@pytest.mark.parametrize(
    ("world", "key"),
    [
        pytest.param(ALFWORLD, "\x03", id="alfworld-ctrl-c"),
        pytest.param(ALFWORLD, "\x04", id="alfworld-ctrl-d", marks=pytest.mark.slow),
        pytest.param(
            SCIENCEWORLD,
            "\x03",
            id="scienceworld-ctrl-c",
            marks=[needs_simulator, pytest.mark.slow],
        ),
        pytest.param(
            SCIENCEWORLD,
            "\x04",
            id="scienceworld-ctrl-d",
            marks=[needs_simulator, pytest.mark.slow],
        ),
    ],
)
def test_ctrl_c_and_ctrl_d_leave_nothing_behind(world: tuple[str, ...], key: str) -> None:
    with agentfly("envs", "play", *world) as (terminal, process):
        terminal.wait_for(PROMPT)
        children = [record.child for record in records()]
        assert len(children) == (world is SCIENCEWORLD)
        terminal.press(key, until="left")
        assert left_behind(process) == []
        assert not any(child.alive for child in children if child)


@needs_simulator
@pytest.mark.slow
def test_a_closed_window_leaves_no_jvm_behind() -> None:
    with agentfly("envs", "play", *SCIENCEWORLD) as (terminal, process):
        terminal.wait_for(PROMPT)
        (jvm,) = records()
        assert jvm.child is not None
        process.send_signal(signal.SIGHUP)
        process.wait()
        while jvm.child.alive:  # The test's own time limit is the deadline.
            time.sleep(0.05)
