"""From a run's settings to a run: every name becomes the thing that it names."""

import math
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.named import find_mask
from agentfly.agents.outfit import Outfit, fit_out
from agentfly.algorithms import make_algorithm
from agentfly.config import RunSettings, SourceSettings
from agentfly.observe import RunProgress
from agentfly.rollout import Limits
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
    outfit = fit_out(source, base=base)
    return Source(
        name=source.name,
        weight=source.weight,
        agent=_agent(outfit, settings),
        tasks=outfit.tasks,
        eval_tasks=outfit.eval_tasks,
    )


def _agent(outfit: Outfit, settings: RunSettings) -> Agent:
    rollout = settings.rollout
    return Agent(
        settings.model.name,
        tools=outfit.tools,
        reward=outfit.reward,
        group_reward=outfit.group_reward,
        system_prompt=outfit.system_prompt,
        kind=outfit.kind,
        environment=outfit.environment,
        sampling=SamplingParams(temperature=rollout.temperature, max_tokens=rollout.max_tokens),
        limits=Limits(
            max_turns=outfit.max_turns or rollout.max_turns,
            context_length=rollout.context_length or math.inf,
            seconds=rollout.chain_seconds,
        ),
    )
