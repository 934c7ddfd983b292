"""Sources of a run, with the worked examples that its model was trained with."""

from collections.abc import Sequence
from dataclasses import replace

from agentfly.agents.trial_file import read_trials
from agentfly.evaluation.evaluate import EvaluatedSource
from agentfly.observe.recorded_run import RecordedRun


def with_examples_of(run: RecordedRun, sources: Sequence[EvaluatedSource]) -> list[EvaluatedSource]:
    """Return sources whose agents show the run's examples before every conversation."""
    trials = read_trials(run.path / "example.json")
    examples = {name: trial.example for name, trial in trials.items() if trial.example}
    return [
        replace(source, agent=source.agent.with_example(examples[source.name]))
        if source.name in examples
        else source
        for source in sources
    ]
