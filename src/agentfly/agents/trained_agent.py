"""The agent that a run has trained, read from the run's folder.

A model that learned with a kind, tools, a system prompt and worked examples needs them afterwards:

    trained = find_trained("runs/sums")         # or its name, or one of its checkpoints
    trained.model                               # runs/sums/checkpoints/step_20
    trained.parts(None).tools                   # (calculator,)
    trained.opening(None)                       # the worked example of example.json
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentfly.agents.source_parts import SourceParts, resolve_source
from agentfly.agents.trial_file import read_trials
from agentfly.config import RunSettings, SourceSettings
from agentfly.config.settings_file import read_toml, validated
from agentfly.errors import ConfigError
from agentfly.observe.recorded_run import RUNS, RecordedRun
from agentfly.observe.run_folder import MARK
from agentfly.runtime.names import look_up
from agentfly.tasks import load_tasks
from agentfly.tasks.task_loading import HubDataset
from agentfly.types import Message, Task

COMPARED_TASKS = 16
"""Tasks whose messages are compared, to find those that all of them begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedAgent:
    """A run's newest model, or the checkpoint that was asked for, with what it was trained with."""

    run: Path
    model: Path
    settings: RunSettings
    base: Path | None
    """Folder in which the run looked for modules and files; None where it is not recorded."""

    def source(self, name: str | None) -> SourceSettings:
        """Return a source of the run by its name; without one, its first."""
        sources = {source.name: source for source in self.settings.source}
        if not sources:
            raise ConfigError(
                f"the agent of the run {self.run} was made in Python, so its folder does not say "
                f"which tools and kind it has. Name them: agentfly chat {self.model} --tools "
                "module:name --kind tags"
            )
        return look_up(name, sources, "source") if name else next(iter(sources.values()))

    def parts(self, source: str | None) -> SourceParts:
        """Return kind, tools, system prompt and tasks of a source; this runs the run's own code."""
        return resolve_source(self.source(source), base=self.base)

    def opening(self, source: str | None) -> list[Message]:
        """Return the messages before every question: the run's example, and those of all tasks.

        Tasks of a hub are not fetched for it.
        """
        rows = self.parts(source).tasks
        tasks = [] if isinstance(rows, HubDataset) else load_tasks(rows)
        shared = shared_opening(tasks[:COMPARED_TASKS])
        trial = read_trials(self.run / "example.json").get(self.source(source).name)
        example = trial.example.messages if trial and trial.example else ()
        own = 1 if shared and shared[0].role == "system" else 0
        return [*shared[:own], *example, *shared[own:]]


def find_trained(name: str) -> TrainedAgent | None:
    """Return the agent of a run's folder, name or checkpoint; None for any other model.

    Runs of `agentfly sft` have no agent: their checkpoints are models like others.
    """
    path = Path(name).expanduser()
    if (path / MARK).is_file():
        return _trained(path, None)
    if path.parent.name == "checkpoints" and (path.parents[1] / MARK).is_file():
        return _trained(path.parents[1], path)
    if not path.exists() and (RUNS / name / MARK).is_file():
        return _trained(RUNS / name, None)
    return None


def _trained(run: Path, checkpoint: Path | None) -> TrainedAgent | None:
    config = run / "config.toml"
    tables = read_toml(config)
    if "data" in tables:  # of a supervised run
        return None
    settings = validated(RunSettings, tables, (), str(config))
    return TrainedAgent(
        run=run,
        model=checkpoint or newest_model(run),
        settings=settings,
        base=RecordedRun(run).base,
    )


def newest_model(run: Path) -> Path:
    """Return a run's merged model, if it has one, or else its newest checkpoint."""
    if (run / "model" / "config.json").is_file():
        return run / "model"
    steps = RecordedRun(run).checkpoint_steps
    if not steps:
        raise ConfigError(
            f"the run {run} has no checkpoint yet: expected one after its first step. Wait for it, "
            "or name the model that it trains"
        )
    return run / "checkpoints" / f"step_{steps[-1]}"


def shared_opening(tasks: Sequence[Task]) -> list[Message]:
    """Return the messages that all tasks begin with, up to the last that is not the user's.

    >>> def task(asked):
    ...     example = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]
    ...     return Task.from_row({"messages": [*example, {"role": "user", "content": asked}]})
    >>> [message.content for message in shared_opening([task("1+1?"), task("3+3?")])]
    ['2+2?', '4']
    """
    shared: list[Message] = []
    for column in zip(*(task.messages for task in tasks), strict=False):
        if any(message != column[0] for message in column):
            break
        shared.append(column[0])
    while shared and shared[-1].role == "user":
        shared.pop()
    return shared
