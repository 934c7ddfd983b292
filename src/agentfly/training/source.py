"""Where a run's tasks come from, and who attempts them."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from agentfly.agents import Agent
from agentfly.config import RunSettings
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.tasks import Rows, load_tasks
from agentfly.types import Task

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Tasks with the agent that attempts them. A run may mix several.

    >>> Source(agent=agent, tasks=[{"question": "2+2?", "answer": "4"}])     # doctest: +SKIP
    """

    agent: Agent
    tasks: Rows | Sequence[Task]
    """A file, rows, a function that gives rows, or tasks."""
    eval_tasks: Rows | Sequence[Task] = ()
    """Held out: never trained on."""
    name: str = "default"
    weight: float = 1.0
    """Its share of the run's tasks, beside the weights of the other sources."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """All sources of a run, read."""

    sources: tuple[Source, ...]
    tasks: tuple[Task, ...]
    eval_tasks: tuple[Task, ...] = field(default=())

    @property
    def weights(self) -> dict[str, float] | None:
        """The share of each source; None where there is only one."""
        if len(self.sources) == 1:
            return None
        return {source.name: source.weight for source in self.sources}


def read_sources(sources: Source | Sequence[Source]) -> Curriculum:
    """Read the tasks of every source, and refuse what can't be trained on."""
    sources = (sources,) if isinstance(sources, Source) else tuple(sources)
    if not sources:
        raise ConfigError("there is nothing to train on: a run needs at least one source of tasks")
    twice = [name for name, count in Counter(s.name for s in sources).items() if count > 1]
    if twice:
        raise ConfigError(f"sources need names of their own: {twice[0]!r} is there twice")
    tasks = [task for source in sources for task in _tasks(source)]
    eval_tasks = [task for source in sources for task in _read(source.eval_tasks, source.name)]
    _warn_of_leaks(tasks, eval_tasks)
    return Curriculum(sources=sources, tasks=told_apart(tasks), eval_tasks=told_apart(eval_tasks))


def told_apart(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Give tasks of one id in several sources ids of their own; all others keep theirs.

    >>> tasks = [Task(id="7", messages=(), source=source) for source in ("web", "books")]
    >>> [task.id for task in told_apart(tasks)]
    ['web/7', 'books/7']
    """
    counts = Counter(id for id, _ in {(task.id, task.source) for task in tasks})
    return tuple(
        replace(task, id=f"{task.source}/{task.id}") if counts[task.id] > 1 else task
        for task in tasks
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


def warn_of_unheard(curriculum: Curriculum, settings: RunSettings) -> None:
    """Tell of settings that change nothing, because an agent made by hand has its own."""
    if settings.source:
        return  # agents are made of the settings
    for source in curriculum.sources:
        sampling, limits = source.agent.sampling, source.agent.limits
        own = {
            "temperature": sampling.temperature,
            "max_tokens": sampling.max_tokens,
            "max_turns": limits.max_turns,
            "chain_seconds": limits.seconds,
        }
        for name in sorted(settings.rollout.model_fields_set & own.keys()):
            if own[name] != (asked := getattr(settings.rollout, name)):
                _log.warning(
                    "rollout.%s = %s changes nothing: the agent of source %r has its own, %s. Give "
                    "it to the agent",
                    *(name, asked, source.name, own[name]),
                )


def require_models_fit(curriculum: Curriculum, settings: RunSettings) -> None:
    """Refuse agents that would render for one model while another is trained."""
    folder = resolve_model(settings.model.name)
    for source in curriculum.sources:
        model = source.agent.model
        if model.renderer is None:
            raise ConfigError(
                f"the agent of source {source.name!r} speaks through a server that gives no token "
                f"ids, and can't be trained: name its model, {settings.model.name!r}"
            )
        if model.folder is not None and model.folder.resolve() != folder.resolve():
            raise ConfigError(
                f"the agent of source {source.name!r} is of the model in {model.folder}, and "
                f"{settings.model.name!r} is to be trained: name the same model in both places"
            )


def _tasks(source: Source) -> list[Task]:
    agent = source.agent
    if agent.reward is None and agent.group_reward is None and agent.environment is None:
        raise ConfigError(
            f"source {source.name!r} has no reward: nothing tells good chains from bad ones. "
            "Give its agent reward= or group_reward="
        )
    tasks = _read(source.tasks, source.name)
    if not tasks:
        raise ConfigError(f"source {source.name!r} has no tasks: its list is empty")
    return tasks


def _read(rows: Rows | Sequence[Task], source: str) -> list[Task]:
    if isinstance(rows, Sequence) and all(isinstance(row, Task) for row in rows):
        return [replace(row, source=source) for row in rows if isinstance(row, Task)]
    return load_tasks(cast(Rows, rows), source=source)
