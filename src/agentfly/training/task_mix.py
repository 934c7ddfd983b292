"""The tasks of a run and the agents that attempt them, prepared for training."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.source import Source
from agentfly.config import EvalSettings, RunSettings
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.rollout import Limits
from agentfly.tasks import load_tasks
from agentfly.tasks.task_loading import disambiguate_ids
from agentfly.types import SamplingParams, Task

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMix:
    """Sources of a run with their tasks: those to train on and those held out."""

    sources: tuple[Source, ...]
    tasks: tuple[Task, ...]
    eval_tasks: tuple[Task, ...] = field(default=())

    @property
    def weights(self) -> dict[str, float] | None:
        """The share of each source; None where there is only one."""
        if len(self.sources) == 1:
            return None
        return {source.name: source.weight for source in self.sources}


def read_sources(sources: Sequence[Source], evaluation: EvalSettings) -> TaskMix:
    """Read the tasks that were not read yet; the held-out ones only if they are used."""
    tasks = [task for source in sources for task in _tasks(source)]
    eval_tasks = [
        task
        for source in (sources if evaluation.is_on else ())
        for task in evaluation.select(load_tasks(source.eval_tasks, source=source.name))
    ]
    _warn_of_leaks(tasks, eval_tasks)
    return TaskMix(
        sources=tuple(sources),
        tasks=disambiguate_ids(tasks),
        eval_tasks=disambiguate_ids(eval_tasks),
    )


def _warn_of_leaks(tasks: Sequence[Task], eval_tasks: Sequence[Task]) -> None:
    trained = {task.id for task in tasks}
    leaked = [task.id for task in eval_tasks if task.id in trained]
    if leaked:
        _log.warning(
            "%d of the held-out tasks are trained on too, for example %r: what is measured with "
            "them says little about other tasks",
            *(len(leaked), leaked[0]),
        )


def warn_ignored_settings(sources: Sequence[Source], settings: RunSettings) -> None:
    """Warn of settings that change nothing, because an agent was given its own."""
    for source in sources:
        sampling, limits = source.agent.sampling, source.agent.limits
        own = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "max_turns": limits.max_turns,
            "chain_seconds": limits.seconds,
            "context_length": limits.context_length,
        }
        for name in sorted(
            settings.rollout.model_fields_set & source.agent.own_settings & set(own)
        ):
            if own[name] != (asked := getattr(settings.rollout, name)):
                _log.warning(
                    "rollout.%s = %s changes nothing: the agent of source %r has its own, %s. Give "
                    "it to the agent",
                    *(name, asked, source.name, own[name]),
                )


def for_run(task_mix: TaskMix, settings: RunSettings) -> TaskMix:
    """Give every agent the model that is trained, and the run's sampling and limits.

    What an agent was given itself, it keeps.
    """
    rollout = settings.rollout
    sampling = SamplingParams(temperature=rollout.temperature, max_tokens=rollout.max_tokens)
    limits = Limits(
        max_turns=rollout.max_turns,
        context_length=rollout.context_length or math.inf,
        seconds=rollout.chain_seconds,
    )
    folder = resolve_model(settings.model.name, trust_remote_code=settings.model.trust_remote_code)
    sources = []
    for source in task_mix.sources:
        _require_model_fits(source, folder, settings)
        agent = source.agent.for_run(
            folder,
            sampling=sampling,
            limits=limits,
            trust_remote_code=settings.model.trust_remote_code,
            template_options=settings.model.template_options,
        )
        _require_template_options(agent, source.name, settings)
        sources.append(replace(source, agent=agent))
    return replace(task_mix, sources=tuple(sources))


def _require_model_fits(source: Source, folder: Path, settings: RunSettings) -> None:
    """Refuse an agent whose engine would not be used, or that renders for another model."""
    model, name = source.agent.model, settings.model.name
    if model.given is not None:
        raise ConfigError(
            f"the agent of source {source.name!r} has an engine of its own, a "
            f"{type(model.given).__name__}, which training would not use: chains are sampled "
            "from the weights that are trained, by the engine that the settings name. Make the "
            "agent without a model, or of the model's name: "
            f"Agent({name!r}, ...)"
        )
    if model.chat_model is not None:
        raise ConfigError(
            f"the agent of source {source.name!r} uses a chat server that gives no token "
            f"ids, and can't be trained: name its model, {name!r}"
        )
    if model.folder is not None and model.folder.resolve() != folder.resolve():
        raise ConfigError(
            f"the agent of source {source.name!r} is of the model in {model.folder}, and "
            f"{name!r} is to be trained: name the same model in both places, or none for the agent"
        )
    chosen = model.engine_settings
    if chosen.model_fields_set and chosen.model_dump() != settings.engine.model_dump():
        raise ConfigError(
            f"the agent of source {source.name!r} chooses an engine, {chosen.name!r}, which "
            "training would not use: chains are sampled by the engine that the settings name, "
            f"{settings.engine.name!r}. Leave engine= out, or give the same in the table [engine]"
        )


def _require_template_options(agent: Agent, source: str, settings: RunSettings) -> None:
    given = agent.model.template_options
    if agent.model.folder is not None and given != settings.model.template_options:
        raise ConfigError(
            f"the agent of source {source!r} has the template_options {dict(given)}, and the "
            "settings, which are kept with the run, have "
            f"{settings.model.template_options}: give the same in both places"
        )


def _tasks(source: Source) -> list[Task]:
    tasks = load_tasks(source.tasks, source=source.name)
    if not tasks:
        raise ConfigError(f"source {source.name!r} has no tasks: its list is empty")
    return tasks
