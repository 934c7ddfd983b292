"""No token that is trained is older than the bound, whatever takes how long."""

import itertools
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.simulated_training import Simulated, Simulation, simulate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentfly.errors import RunError
from agentfly.types import Seed

Draw = Callable[[Seed], float]


def heavy_tailed(scale: float, shape: float) -> Draw:
    return lambda seed: scale * seed.random().paretovariate(shape)


latencies = st.builds(
    heavy_tailed, st.sampled_from([0.0, 0.1, 1.0, 20.0]), st.sampled_from([0.8, 1.5, 5.0])
)


@st.composite
def simulations(draw: st.DrawFn, max_staleness: int) -> Simulation:
    return Simulation(
        max_staleness=max_staleness,
        steps=draw(st.integers(1, 6)),
        tasks_per_step=draw(st.integers(1, 4)),
        num_chains=draw(st.integers(2, 3)),
        max_concurrent=draw(st.sampled_from([1, 3, 8, 64])),
        max_turns=draw(st.integers(1, 3)),
        generation=draw(latencies),
        tools=draw(latencies),
        learning=draw(latencies),
        publishing=draw(st.sampled_from([0.0, 0.5, 5.0])),
        seed=draw(st.integers(0, 10**6)),
        algorithm=draw(st.sampled_from(["grpo", "dapo"])),
    )


@pytest.mark.parametrize("max_staleness", [0, 1, 2, 8])
@given(data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_trained_token_is_older_than_the_bound(max_staleness: int, data: st.DataObject) -> None:
    simulation = data.draw(simulations(max_staleness))
    try:
        found = run(simulation)
    except RunError as error:
        assert "had any spread" in str(error)  # noqa: PT017 - dapo may find none
        return
    learner = found.learner
    assert learner.version == simulation.steps
    assert max(learner.ages) <= max_staleness
    assert min(learner.ages) >= 0
    assert len(set(learner.trained)) == len(learner.trained)
    if simulation.algorithm == "grpo":
        assert len(learner.trained) == simulation.steps * simulation.tasks_per_step
    reported = max(step["staleness/max"] for step in found.metrics)
    assert reported <= max_staleness


def run(simulation: Simulation) -> Simulated:
    with tempfile.TemporaryDirectory() as folder:
        return simulate(simulation, Path(folder))


def test_sampling_overlaps_learning_and_nothing_is_thrown_away() -> None:
    def at(max_staleness: int) -> Simulated:
        return run(
            Simulation(
                max_staleness=max_staleness,
                steps=8,
                generation=lambda _: 1.0,
                tools=lambda _: 2.0,
                learning=lambda _: 10.0,
            )
        )

    synchronous, ahead = at(0), at(1)
    # Up to four generations and three calls between them take 10 s, as does the learner.
    assert synchronous.seconds == pytest.approx(8 * 20)
    assert ahead.seconds == pytest.approx(9 * 10)
    assert sorted(ahead.learner.trained) == sorted(synchronous.learner.trained)


def test_a_long_chain_holds_up_no_step_before_the_bound() -> None:
    calls = itertools.count()

    def only_the_first_is_slow(seed: Seed) -> float:
        del seed
        return 1.0 if next(calls) else 25.0

    found = run(
        Simulation(
            max_staleness=2,
            steps=6,
            tasks_per_step=2,
            max_turns=1,
            generation=only_the_first_is_slow,
            tools=lambda _: 0.0,
            learning=lambda _: 10.0,
        )
    )
    # Steps 1 and 2 go on with other groups, from 1 s to 21 s; step 3 is at the bound.
    waits = [step["time/waiting_for_groups"] for step in found.metrics]
    assert waits == pytest.approx([1.0, 0.0, 4.0, 0.0, 0.0, 0.0])
    assert found.seconds == pytest.approx(25 + 4 * 10)
    assert max(found.learner.ages) == 2
