"""Reward for mathematically equivalent answers."""

import importlib.util
from collections.abc import Coroutine
from typing import Any

from agentfly.errors import ConfigError
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.math_processes import Comparison, math_processes
from agentfly.rewards.reference_answers import after_hashes, gold_answers
from agentfly.types import Score, Task


def math_equivalence(
    *,
    field: str = "answer",
    cpu_seconds: int = 5,
    timeout: float = 60.0,
    name: str = "math_equivalence",
) -> FunctionReward[..., Coroutine[Any, Any, Score]]:
    r"""Score 1 if the response's last mathematical expression equals the right one, and else 0.

    The package math-verify finds the expressions and SymPy compares them: `\frac{1}{2}` is `0.5`,
    `(x+1)^2` is `x^2+2x+1`, `\{1,2\}` is `\{2,1\}`. In the response, mathematics is in `$…$`,
    `\(…\)` or `\boxed{…}`, or is a plain number; the right answer may be bare, as `3\pi`. In
    both, only the text after the last `####` counts, if there is one.

    Other processes do the comparison, because a short answer such as `9^{9^9}` would block this
    one forever. An answer that takes more than `cpu_seconds` of computing time is not equal, and
    its score has the part `too_hard`. A right answer that can't be read, and a comparison that does
    not end before the timeout, are RewardErrors.

    >>> math_equivalence().name
    'math_equivalence'

    Args:
        field: The task's field with the right answer, or with a list of alternatives.
        cpu_seconds: Computing time for one comparison (not limited on Windows).
        timeout: Maximum seconds in total, waiting for a process included.
        name: Name in parts and metrics.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ConfigError(
            "math_equivalence needs the package math-verify: pip install 'agentfly[math]'"
        )
    if cpu_seconds < 1:
        raise ConfigError(f"cpu_seconds must be at least 1, got {cpu_seconds!r}")

    @reward(name=name, timeout=timeout, range=(0, 1))
    async def score(final_response: str, task: Task) -> Score:
        processes = await math_processes()
        answer = after_hashes(final_response)
        outcomes = [
            await processes.compare(after_hashes(gold), answer, cpu_seconds=cpu_seconds)
            for gold in gold_answers(task, field)
        ]
        too_hard = Comparison.TOO_HARD in outcomes
        return Score(value=float(Comparison.EQUAL in outcomes), parts={"too_hard": float(too_hard)})

    score.reads = (field,)
    return score
