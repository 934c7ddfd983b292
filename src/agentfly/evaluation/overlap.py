"""Tasks of an evaluation that a model was trained on.

A number on such tasks says how well they were learned, not how well others will be solved.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.agents.source_parts import resolve_source
from agentfly.config import RunSettings
from agentfly.config.settings_file import validated
from agentfly.errors import AgentFlyError
from agentfly.evaluation.checkpoint_names import run_of_model
from agentfly.observe.recorded_run import RecordedRun
from agentfly.tasks import load_tasks
from agentfly.types import Task

MAX_RUNS = 10
"""Maximum number of runs that are looked at, each started from the model of the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Tasks that were trained on."""

    run: str
    tasks: tuple[Task, ...]
    total: int

    @property
    def sentence(self) -> str:
        """The warning, in one sentence."""
        share = "all" if len(self.tasks) == self.total else f"{len(self.tasks)} of {self.total}"
        return (
            f"{share} tasks are training tasks of {self.run}, for example {self.tasks[0].id!r}: "
            "what is measured with them says little about other tasks"
        )


def find_overlap(tasks: Sequence[Task], run: RecordedRun | None) -> Iterator[Overlap]:
    """Yield what a run was trained on among some tasks, then the run that its model came from."""
    for _ in range(MAX_RUNS):
        if run is None:
            return
        trained = set(_contents(training_tasks(run)))
        found = tuple(task for task in tasks if content(task) in trained)
        if found:
            yield Overlap(run=str(run.path), tasks=found, total=len(tasks))
        run = run_of_model(str(run.settings.get("model", {}).get("name", "")))


def training_tasks(run: RecordedRun) -> Iterable[Task]:
    """Return the training tasks of a run: those that its settings name, else those of its chains.

    Files that the settings name may be gone since; the chains of its steps have their tasks.
    """
    try:
        return list(_named_tasks(run))
    except AgentFlyError:
        return (chain.task for step in run.steps for chain in run.chains(step))


def _named_tasks(run: RecordedRun) -> Iterator[Task]:
    settings = validated(RunSettings, run.settings, (), str(run.path))
    for source in settings.source:
        yield from load_tasks(resolve_source(source, base=Path()).tasks, source=source.name)


def _contents(tasks: Iterable[Task]) -> Iterator[str]:
    return map(content, tasks)


def content(task: Task) -> str:
    """Return what a task asks, without its id: equal texts are the same task.

    >>> row = {"question": "What is 2+2?", "answer": "4"}
    >>> content(Task.from_row(row)) == content(Task.from_row({**row, "id": 7}))
    True
    """
    if task.messages:
        return json.dumps([message.to_dict() for message in task.messages], sort_keys=True)
    return json.dumps(_without_id(task.fields), sort_keys=True, default=str)


def _without_id(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name != "id"}
