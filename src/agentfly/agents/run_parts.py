"""All parts of a run, resolved from its settings, or all problems in them.

A dry run, a run by a file and `Trainer` go through `resolve_run`: every name is looked up, files of
tasks are read, and what this machine lacks is reported. Nothing is fetched, no weights are loaded,
and functions and hubs that give tasks are not called.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentfly.agents.agent import Agent
from agentfly.agents.argument_checks import may_score
from agentfly.agents.preflight import (
    cluster_problems,
    find_existing,
    learner_problems,
    missing_requirements,
)
from agentfly.agents.registry import find_mask
from agentfly.agents.source import Source, require_trainable
from agentfly.agents.source_parts import SourceParts, resolve_source
from agentfly.chat import MaskPolicy
from agentfly.config import (
    AlgorithmSettings,
    Problem,
    RolloutSettings,
    RunSettings,
    SourceSettings,
)
from agentfly.config.validation_errors import Problems, refuse_if_any
from agentfly.engines.factory import ENGINES, EngineMaker, engine_problems
from agentfly.errors import ConfigError
from agentfly.tasks import Rows, load_tasks

if TYPE_CHECKING:
    from agentfly.algorithms import Algorithm  # needs torch, which agents do not

_NO_REWARD = (
    "missing: nothing tells good chains from bad ones. Name a reward, a group_reward, or an "
    "environment that scores"
)

_STALENESS_NOT_DETERMINISTIC = (
    "must be 0 in a deterministic run: above it, the time that things take decides which weights "
    "sample a token. Set it to 0, or set deterministic to false"
)
_FAVOR_FAST_NOT_DETERMINISTIC = (
    "must be false in a deterministic run: the time that a chain takes would decide. Set it to "
    "false, or set deterministic to false"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """Everything that a run's settings name."""

    settings: RunSettings
    sources: tuple[Source, ...]
    """Sources with their agents. Agents without a model get the one that is trained."""
    algorithm: "Algorithm"
    mask: MaskPolicy
    algorithm_named: bool = True
    """Whether the settings name the algorithm, so that another process can make the same one."""
    engine: EngineMaker | None = None
    """Maker of a user's own engine; None for the built-in one that the settings name."""
    base: Path | None = None
    """Folder of relative paths and modules; None for the working directory."""


def resolve_run(
    settings: RunSettings,
    *,
    sources: Sequence[Source] | None = None,
    algorithm: "Algorithm | None" = None,
    mask: MaskPolicy | None = None,
    engine: EngineMaker | None = None,
    base: Path | None = None,
) -> RunParts:
    """Turn settings into all parts of a run, or raise one SettingsError that lists all problems.

    Args:
        settings: Valid settings.
        sources: Sources to use instead of those that the settings name.
        algorithm: Algorithm to use instead of the one that the settings name.
        mask: Mask policy to use instead of the one that the settings name.
        engine: Engine maker to use instead of the one that the settings name.
        base: Folder of relative paths and modules; by default the working directory.
    """
    problems = Problems()
    found_mask = mask or problems.tried("rollout.mask", find_mask, settings.rollout.mask, base=base)
    if sources is None:
        found = [
            _named_source(source, problems.under(f"source.{number}."), base)
            for number, source in enumerate(settings.source)
        ]
    else:
        found = _given_sources(sources, problems, base)
    problems.add(*_setting_problems(settings))
    own_engine = settings.engine.name not in ENGINES.builtin
    if engine is None:
        deterministic = settings.deterministic
        problems.add(*engine_problems(settings.engine, deterministic=deterministic, base=base))
    found_algorithm = algorithm or problems.tried("algorithm.name", _algorithm, settings, base)
    if found_algorithm is not None:
        rollout, train = settings.rollout, settings.train
        problems.add(
            *found_algorithm.problems(
                rollout.num_chains, updates=train.updates, max_staleness=rollout.max_staleness
            )
        )
    refuse_if_any(problems.found, None)
    assert found_mask is not None, "no problem was found"
    assert found_algorithm is not None, "no problem was found"
    return RunParts(
        settings=settings if algorithm else with_algorithm_defaults(settings, base),
        sources=tuple(source for source in found if source is not None),
        algorithm=found_algorithm,
        mask=found_mask,
        algorithm_named=algorithm is None,
        engine=engine or (ENGINES.find(settings.engine.name, base=base) if own_engine else None),
        base=base,
    )


def ignored_turn_limits(parts: RunParts) -> Iterator[str]:
    """Yield where a `rollout.max_turns` that is not the default gives way to an environment's."""
    limit = parts.settings.rollout.max_turns
    if limit == RolloutSettings().max_turns:
        return
    named = {source.name: source for source in parts.settings.source}
    for source in parts.sources:
        table, agent = named.get(source.name), source.agent
        if table is None or table.environment is None or table.max_turns is not None:
            continue
        if "max_turns" in agent.own_settings and agent.limits.max_turns != limit:
            yield (
                f"rollout.max_turns = {limit} has no effect on source {source.name!r}: "
                f"{table.environment}'s own limit is {agent.limits.max_turns}; set max_turns in "
                "the [[source]]"
            )


def _setting_problems(settings: RunSettings) -> Iterator[Problem]:
    """Yield what is wrong with settings as a whole, and what this machine lacks for them."""
    yield from missing_requirements(settings.model, settings.track)
    yield from cluster_problems(settings)
    yield from learner_problems(settings)
    if settings.deterministic and settings.rollout.max_staleness:
        yield Problem(key="rollout.max_staleness", text=_STALENESS_NOT_DETERMINISTIC)
    if settings.deterministic and settings.rollout.favor_fast:
        yield Problem(key="rollout.favor_fast", text=_FAVOR_FAST_NOT_DETERMINISTIC)


def _algorithm(settings: RunSettings, base: Path | None) -> "Algorithm":
    from agentfly.algorithms import make_algorithm  # needs torch, which agents do not

    chosen = settings.algorithm
    return make_algorithm(chosen.name, chosen.options, base=base)


def with_algorithm_defaults(settings: RunSettings, base: Path | None) -> RunSettings:
    """Return the settings with every option of their algorithm, of your own too."""
    from agentfly.algorithms.lookup import complete_options  # needs torch, which agents do not

    chosen = settings.algorithm
    options = complete_options(chosen.name, chosen.options, base=base)
    return settings.model_copy(
        update={"algorithm": AlgorithmSettings(name=chosen.name, **options)},
    )


def _named_source(source: SourceSettings, problems: Problems, base: Path | None) -> Source | None:
    parts = problems.tried("", _resolve_source, source, base)
    own = parts.environment if parts else None
    scores = source.environment is not None and (own is None or may_score(own))
    if not (source.reward or source.group_reward or scores):
        problems.add(Problem(key="reward", text=_NO_REWARD))
    agent = problems.tried("kind", make_agent, parts) if parts else None
    if parts is None or agent is None:
        return None
    return Source(
        name=source.name,
        weight=source.weight,
        example=source.example,
        agent=agent,
        tasks=parts.tasks,
        eval_tasks=parts.eval_tasks,
    )


def _resolve_source(source: SourceSettings, base: Path | None) -> SourceParts:
    return resolve_source(source, base=base, find=_read_file)


def make_agent(parts: SourceParts) -> Agent:
    """Return the agent of a source; it has no model yet."""
    return Agent(
        tools=parts.tools,
        reward=parts.reward,
        group_reward=parts.group_reward,
        system_prompt=parts.system_prompt,
        kind=parts.kind,
        environment=parts.environment,
        max_turns=parts.max_turns,
    )


def _given_sources(
    sources: Sequence[Source], problems: Problems, base: Path | None
) -> list[Source | None]:
    if not sources:
        text = "there is nothing to train on: a run needs at least one source of tasks"
        problems.add(Problem(key="source", text=text))
    for name, count in Counter(source.name for source in sources).items():
        if count > 1:
            text = f"sources need names of their own: {name!r} is there twice"
            problems.add(Problem(key="source", text=text))
    for number, source in enumerate(sources):
        problems.tried(f"source.{number}", require_trainable, source)
    return [
        problems.tried(f"source.{number}.tasks", _read, source, base)
        for number, source in enumerate(sources)
    ]


def _read(source: Source, base: Path | None) -> Source:
    """Return the source with its files of tasks read."""
    return replace(
        source,
        tasks=_read_rows(source.tasks, base),
        eval_tasks=_read_rows(source.eval_tasks, base),
    )


def _read_rows(rows: Rows, base: Path | None) -> Rows:
    if isinstance(rows, str | Path):
        return _read_file(str(rows), base)
    return rows


def _read_file(name: str, base: Path | None) -> Rows:
    rows = find_existing(name, base=base)
    if not isinstance(rows, Path):
        return rows
    tasks = load_tasks(rows)
    if not tasks:
        raise ConfigError(
            f"{str(rows)!r} holds no tasks: got an empty file, expected rows such as "
            '{"question": "What is 2+2?", "answer": "4"}. Write some, or name another file'
        )
    return tasks
