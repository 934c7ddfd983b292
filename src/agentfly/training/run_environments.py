"""The manager of all environments of a run, bounded and warmed as its settings say."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from agentfly.config import EnvironmentSettings
from agentfly.resources import EnvironmentManager, Pooling
from agentfly.resources.pooling import pooling_of
from agentfly.training.curriculum import Curriculum
from agentfly.types import EnvSpec


@asynccontextmanager
async def run_environments(
    curriculum: Curriculum, settings: EnvironmentSettings
) -> AsyncIterator[EnvironmentManager]:
    """Open one manager for all sources, and begin to make what shall be warm."""
    specs = dict.fromkeys(
        spec for source in curriculum.sources for spec in source.agent.environments
    )
    manager = EnvironmentManager(
        {spec.factory: _kept(spec, settings) for spec in specs},
        memory_mb=settings.memory_mb or math.inf,
        cpus=settings.cpus or math.inf,
    )
    async with manager:
        await manager.warm_up(list(specs))
        yield manager


def _kept(spec: EnvSpec, settings: EnvironmentSettings) -> Pooling:
    chosen = settings.model_dump(include={"max_instances", "min_warm"}, exclude_none=True)
    return replace(pooling_of(spec.factory), **chosen)
