"""From a run's settings to a run: every name becomes the thing that it names."""

import math
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.named import (
    find_environment,
    find_group_reward,
    find_kind,
    find_mask,
    find_reward,
    find_tool,
)
from agentfly.algorithms import make_algorithm
from agentfly.config import RunSettings, SourceSettings
from agentfly.observe import RunProgress
from agentfly.rollout import Limits
from agentfly.tasks import load_tasks
from agentfly.training.result import TrainResult
from agentfly.training.source import Source
from agentfly.training.trainer import Trainer
from agentfly.types import SamplingParams


def train(
    settings: RunSettings,
    *,
    resume: bool = False,
    base: Path | None = None,
    progress: RunProgress | None = None,
) -> TrainResult:
    """Train by settings alone.

    Args:
        settings: As `agentfly.config.load_settings` reads them from a TOML file.
        resume: Go on from the last checkpoint of the run of this name.
        base: The folder that files and modules are named from; by default the working directory.
        progress: Where the run shows how far it is; by default the terminal.
    """
    algorithm = settings.algorithm
    trainer = Trainer(
        [_source(source, settings, base) for source in settings.source],
        settings,
        algorithm=make_algorithm(algorithm.name, algorithm.options, base=base),
        mask=find_mask(settings.rollout.mask, base=base),
        resume=resume,
        progress=progress,
    )
    return trainer.run()


def _source(source: SourceSettings, settings: RunSettings, base: Path | None) -> Source:
    held_out = source.eval_tasks
    return Source(
        name=source.name,
        weight=source.weight,
        agent=_agent(source, settings, base),
        tasks=load_tasks(source.tasks, source=source.name, base=base),
        eval_tasks=load_tasks(held_out, source=source.name, base=base) if held_out else (),
    )


def _agent(source: SourceSettings, settings: RunSettings, base: Path | None) -> Agent:
    rollout, group_reward = settings.rollout, source.group_reward
    return Agent(
        settings.model.name,
        tools=[find_tool(name, base=base) for name in source.tools],
        reward=find_reward(source.reward, base=base) if source.reward else None,
        group_reward=find_group_reward(group_reward, base=base) if group_reward else None,
        system_prompt=source.system_prompt,
        kind=find_kind(source.kind, base=base),
        environment=find_environment(source.environment, base=base) if source.environment else None,
        sampling=SamplingParams(temperature=rollout.temperature, max_tokens=rollout.max_tokens),
        limits=Limits(
            max_turns=source.max_turns or rollout.max_turns,
            context_length=rollout.context_length or math.inf,
            seconds=rollout.chain_seconds,
        ),
    )
