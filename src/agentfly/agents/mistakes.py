"""What is wrong with the names in a run's settings: each is looked up before anything begins."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from agentfly.agents.named import (
    find_environment,
    find_group_reward,
    find_kind,
    find_mask,
    find_reward,
    find_tool,
)
from agentfly.agents.outfit import make_kit
from agentfly.config import Problem, RunSettings, SettingsError, SourceSettings
from agentfly.errors import ConfigError


def unknown_names(settings: RunSettings, *, base: Path | None = None) -> Iterator[Problem]:
    """Look up every name of a run's settings, and tell of those that stand for nothing."""
    yield from _tried("rollout.mask", find_mask, settings.rollout.mask, base)
    for number, source in enumerate(settings.source):
        for problem in _of_source(source, base):
            yield replace(problem, key=f"source.{number}.{problem.key}")


def _of_source(source: SourceSettings, base: Path | None) -> Iterator[Problem]:
    yield from _tried("kind", find_kind, source.kind, base)
    for place, name in enumerate(source.tools):
        yield from _tried(f"tools.{place}", find_tool, name, base)
    yield from _tried("reward", find_reward, source.reward, base)
    yield from _tried("group_reward", find_group_reward, source.group_reward, base)
    if source.environment and ":" in source.environment:
        yield from _tried("environment", find_environment, source.environment, base)
    yield from _misfits(source, base)


def _misfits(source: SourceSettings, base: Path | None) -> Iterator[Problem]:
    """Tell what is wrong with a ready-made environment or its options."""
    try:
        make_kit(source, base=base)
    except SettingsError as error:
        yield from error.problems
    except ConfigError as error:
        yield Problem(key="environment", text=str(error))


def _tried(
    key: str, find: Callable[..., object], name: str | None, base: Path | None
) -> Iterator[Problem]:
    try:
        if name is not None:
            find(name, base=base)
    except ConfigError as error:
        yield Problem(key=key, text=str(error))
