"""Sources of a run, with the worked examples that its model was trained with."""

from collections.abc import Sequence
from dataclasses import replace

from agentfly.agents.kind import WorkedExample
from agentfly.agents.trial_file import read_trials
from agentfly.evaluation.evaluate import EvaluatedSource
from agentfly.observe.recorded_run import RecordedRun


def examples_of(run: RecordedRun) -> dict[str, WorkedExample]:
    """Return the worked examples of a run's sources, by their names."""
    trials = read_trials(run.path / "example.json")
    return {name: trial.example for name, trial in trials.items() if trial.example}


def with_examples_of(run: RecordedRun, sources: Sequence[EvaluatedSource]) -> list[EvaluatedSource]:
    """Return sources whose agents show the run's examples before every conversation."""
    examples = examples_of(run)
    return [
        replace(source, agent=source.agent.with_example(examples[source.name]))
        if source.name in examples
        else source
        for source in sources
    ]
