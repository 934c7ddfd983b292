"""Short seeded runs of every algorithm, held against numbers that were written down.

A change of the code that is not meant to change what is learned reproduces them. A change of the
mathematics writes them again, in a commit that says why:

    python -m tests.training.test_invariant_runs
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.training.learner_cases import as_sampled_by, make_groups, make_learner, make_model

from agentfly.algorithms import ALGORITHMS, make_algorithm
from agentfly.types import Group, Score

REFERENCE = Path(__file__).with_name("invariant_runs.json")
STEPS = 6
Run = dict[str, list[float]]


@cache
def batches() -> list[list[Group]]:
    """Steps of four groups: two with spread, one flat, one of which a single chain was scored."""
    model = make_model()
    return [as_sampled_by(model, _one_step(seed)) for seed in range(STEPS)]


def _one_step(seed: int) -> list[Group]:
    first, second, flat, lonely = make_groups(seed=seed, groups=4)
    same = tuple(replace(member, score=Score(value=1.0)) for member in flat.members)
    failed = tuple(replace(member, score=None) for member in lonely.members[1:])
    return [
        first,
        second,
        replace(flat, members=same),
        replace(lonely, members=(lonely.members[0], *failed)),
    ]


def run(name: str, **options: Any) -> Run:
    algorithm = make_algorithm(name, options)
    learner = make_learner(make_model(), algorithm, minibatches=2, lr=1e-3, max_grad_norm=1.0)
    metrics = [learner.learn(groups).metrics for groups in batches()]
    return {key: [one[key] for one in metrics] for key in ("loss", "grad_norm")}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_is_what_it_was(name: str) -> None:
    expected = json.loads(REFERENCE.read_text())[name]
    found = run(name)
    for key, values in expected.items():
        assert found[key] == pytest.approx(values, rel=1e-3, abs=1e-6), key


def write() -> None:
    """Write the numbers down."""
    runs = {name: run(name) for name in ALGORITHMS}
    digits = {
        name: {key: [float(f"{value:.6g}") for value in values] for key, values in one.items()}
        for name, one in runs.items()
    }
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in digits.items()]
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
