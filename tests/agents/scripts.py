"""Scripted models and small environments that the tests of agents share."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.engines import ScriptedEngine, ScriptedTurn
from agentfly.types import Seed, Step, Task

Script = Sequence[str] | Callable[[ScriptedTurn], str | Sequence[int]]


def engine(script: Script, **options: Any) -> ScriptedEngine:
    return ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS), **options)


def call(name: str, /, **arguments: object) -> str:
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


class Counter:
    """An environment that opens the conversation, and answers in capitals, never with its input."""

    alive = 0
    made = 0

    def __init__(self) -> None:
        Counter.alive += 1
        Counter.made += 1
        self.total = -1
        self.log: list[str] = []

    def reset(self, task: Task, seed: Seed) -> Step:
        del seed
        self.total = 0
        return Step(observation=f"REACH {task.fields.get('goal', 2)}.", state_key="0")

    def step(self, action: str) -> Step:
        self.total += 1
        self.log.append(action)
        return Step(
            observation=f"NOW AT {self.total}.",
            reward=0.5,
            done=self.total >= 2,
            state_key=str(self.total),
        )

    def close(self) -> None:
        Counter.alive -= 1
