"""A context for calling tools and rewards outside a chain."""

import math
from typing import Any

from agentfly.errors import ConfigError
from agentfly.runtime.clock import LoopClock
from agentfly.types import Context, Environments, EnvSpec, Seed, Task, chain_id, group_id


class NoEnvironments:
    """Environments of a context whose tools need none."""

    async def get(self, spec: EnvSpec | None) -> Any:
        """Raise ConfigError with how to provide an environment."""
        name = spec.name if spec else "the chain's only environment"
        raise ConfigError(f"{name} was asked for: pass environments={{MyEnv: MyEnv()}}")


class _Given:
    def __init__(self, instances: dict[type, Any]) -> None:
        self._instances = instances

    async def get(self, spec: EnvSpec | None) -> Any:
        if spec is None:
            (only,) = self._instances.values()
            return only
        return self._instances[spec.factory]  # type: ignore[index]


def make_context(
    task: Task | None = None,
    *,
    environments: dict[type, Any] | None = None,
    seed: int = 0,
    deadline: float = math.inf,
) -> Context:
    """Return a context like that of a tool or reward in a chain; call it in a running loop."""
    task = task or Task.from_row({"question": "What is 2+2?"})
    group = group_id(task.id, 0)
    given: Environments = _Given(environments) if environments else NoEnvironments()
    return Context(
        task=task,
        group_id=group,
        chain_id=chain_id(group, 0),
        turn=0,
        seed=Seed(seed),
        clock=LoopClock(),
        deadline=deadline,
        environments=given,
    )
