"""What the tests of tools share: calls, contexts, and environments of a chain."""

import json
import math
from collections.abc import Mapping
from typing import Any

from agentfly.errors import LeaseTimeout
from agentfly.runtime.clock import LoopClock
from agentfly.types import Clock, Context, EnvSpec, Seed, Task, Tool, ToolCall, ToolResult


class Leased:
    """A chain's environments: each made once, on demand."""

    def __init__(self, only: object = None) -> None:
        self.only = only
        self.asked: list[EnvSpec | None] = []
        self._instances: dict[EnvSpec, Any] = {}

    async def get(self, spec: EnvSpec | None) -> Any:
        self.asked.append(spec)
        if spec is None:
            return self.only
        if spec.name == "Exhausted":
            raise LeaseTimeout("all are taken")
        return self._instances.setdefault(spec, spec.make())


def context(
    fields: Mapping[str, Any] | None = None,
    *,
    seconds: float = math.inf,
    environments: Leased | None = None,
    clock: Clock | None = None,
) -> Context:
    """Stand in a chain; call it in a running loop."""
    clock = clock or LoopClock()
    return Context(
        task=Task(id="task-7", messages=(), fields=fields or {}),
        group_id="task-7/0",
        chain_id="task-7/0/0",
        turn=0,
        seed=Seed(7),
        clock=clock,
        deadline=clock.now() + seconds,
        environments=environments or Leased(),
    )


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall(id="call_0", name=name, arguments=arguments)


async def run(tool: Tool, /, **arguments: object) -> ToolResult:
    return await tool.run(call(tool.spec.name, json.dumps(arguments)), context())
