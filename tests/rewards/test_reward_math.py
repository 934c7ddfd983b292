import asyncio
import importlib.util
import os
import signal
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from tests.rewards.reward_chains import score_of, value_of

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards import math_equivalence, math_processes
from agentfly.rewards.math_processes import Comparison
from agentfly.runtime.process import Child

CASES: list[tuple[str, object, float]] = [
    ("0.5", r"\frac{1}{2}", 1.0),
    (r"so \boxed{\frac{2}{4}}", "1/2", 1.0),
    (r"$(x+1)^2$", "x^2+2x+1", 1.0),
    (r"$(x+1)^2$", "x^2+2x+2", 0.0),
    (r"$\{2,1\}$", r"$\{1,2\}$", 1.0),
    (r"$3\pi$", r"3\pi", 1.0),
    ("3", r"3\pi", 0.0),
    ("48/2 = 24\n#### 72", "48+24 = 72\n#### 72", 1.0),
    ("no idea", "5", 0.0),
    ("", "5", 0.0),
    ("$5$", ["4", "5"], 1.0),
    ("42", 42, 1.0),
    ("$\ud800$", "5", 0.0),
]


async def test_equal_mathematics() -> None:
    reward = math_equivalence()
    for said, answer, value in CASES:
        score = await score_of(reward, said, answer=answer)
        assert (said, score.value) == (said, value)
        assert score.parts == {"too_hard": 0.0}


@pytest.mark.skipif(sys.platform == "win32", reason="computing time is not limited on Windows")
async def test_an_answer_that_computes_for_ever_stops_nobody() -> None:
    """Python's integers are multiplied without letting other threads run: a thread won't do."""
    beats = 0

    async def heart() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.05)
            beats += 1

    async with asyncio.TaskGroup() as group:
        beating = group.create_task(heart())
        hard = math_equivalence(cpu_seconds=1)
        score = await score_of(hard, "$9^{9^{9}}$", answer="3")
        beating.cancel()
    assert score.value == 0.0
    assert score.parts == {"too_hard": 1.0}
    assert beats >= 3, "the event loop stood still"
    assert await value_of(hard, "$3$", answer="3") == 1.0


async def test_a_comparison_past_its_timeout_is_an_error_and_the_next_goes_on() -> None:
    rushed = math_equivalence(cpu_seconds=100, timeout=0.5)
    with pytest.raises(RewardError, match="'math_equivalence' failed"):
        await score_of(rushed, "$9^{9^{9}}$", answer="3")
    assert await value_of(math_equivalence(), "$3$", answer="3") == 1.0


async def test_a_right_answer_that_can_not_be_read_is_an_error() -> None:
    with pytest.raises(RewardError, match="the right answer '' can't be read as mathematics"):
        await score_of(math_equivalence(), "3", answer="")


@pytest.mark.parametrize(
    ("program", "doing"),
    [
        ("raise SystemExit(7)", "reading the right one, '3'"),
        ("input(); print('true', flush=True); raise SystemExit(7)", "comparing an answer with"),
    ],
)
async def test_a_process_that_breaks_is_an_error_not_a_zero(
    program: str, doing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(program)
    monkeypatch.setattr(math_processes, "WORKER", broken)
    with pytest.raises(RewardError, match=f"ended with code 7 while {doing}"):
        await score_of(math_equivalence(), "3", answer="3")


async def test_a_process_that_died_idle_is_replaced() -> None:
    pool = math_processes.MathProcesses(size=1)
    try:
        assert await pool.compare("3", "$3$", cpu_seconds=5) is Comparison.EQUAL
        [idle] = pool._idle
        os.kill(idle.pid, signal.SIGKILL)
        await idle.wait()
        assert await pool.compare("3", "$4$", cpu_seconds=5) is Comparison.DIFFERENT
        [another] = pool._idle
        assert another.pid != idle.pid
    finally:
        await pool.close()


def test_no_process_outlives_its_event_loop() -> None:
    async def compare() -> list[Child]:
        pool = await math_processes.math_processes()
        assert await pool.compare("3", "$3$", cpu_seconds=5) is Comparison.EQUAL
        assert await math_processes.math_processes() is pool
        return list(pool._idle)

    for _ in range(2):
        [child] = asyncio.run(compare())
        assert child.returncode == -signal.SIGKILL
        assert not math_processes._pools


async def test_many_answers_are_compared_at_once() -> None:
    reward = math_equivalence()
    async with asyncio.TaskGroup() as group:
        scores = [
            group.create_task(value_of(reward, f"${i}+1$", answer=f"{i + i % 2}"))
            for i in range(40)
        ]
    # i + 1 equals i + i % 2 for the odd ones only.
    assert [task.result() for task in scores] == [float(i % 2) for i in range(40)]


def test_the_way_out_is_named_where_the_package_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(name: str, package: str | None = None) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    with pytest.raises(ConfigError, match=r"pip install 'agentfly\[math\]'"):
        math_equivalence()


def test_computing_time_is_at_least_a_second() -> None:
    with pytest.raises(ConfigError, match="cpu_seconds must be at least 1, got 0"):
        math_equivalence(cpu_seconds=0)
