"""A task with environments: each chain calculates with an instance of its own."""

import os
from random import Random

from agentfly import Agent, Source, tool
from agentfly.resources import Pooling
from agentfly.rewards import numeric_match
from agentfly.tools import calculator as plain_calculator
from agentfly.types import Seed, Task


class Abacus:
    """Remembers what was calculated in its lease."""

    pooling = Pooling(max_instances=6, max_uses=100, cpus=0.1, memory_mb=10)

    def __init__(self) -> None:
        self._used = 0

    def reset(self, task: Task, seed: Seed) -> None:
        self._used = 0

    def calculate(self, expression: str) -> str:
        self._used += 1
        return str(plain_calculator.function(expression))

    def pid(self) -> int:
        return os.getpid()

    def close(self) -> None:
        pass


@tool
def calculator(expression: str, env: Abacus) -> str:
    """Calculate an arithmetic expression.

    Args:
        expression: The expression.
    """
    assert env.pid() != os.getpid(), "it should be on a node of the cluster"
    return env.calculate(expression)


def source() -> Source:
    rng = Random(3)
    pairs = [(rng.randint(11, 99), rng.randint(11, 99)) for _ in range(64)]
    rows = [{"question": f"What is {a}*{b}?", "answer": str(a * b)} for a, b in pairs]
    agent = Agent(
        tools=[calculator],
        reward=numeric_match(),
        system_prompt="Use the calculator to answer.",
    )
    return Source(agent=agent, tasks=rows)
