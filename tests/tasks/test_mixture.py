"""Several sources in one order."""

from collections import Counter

import pytest

from agentfly.errors import ConfigError
from agentfly.tasks import Ledger, Mixture
from agentfly.types import Seed, StopReason, Task


def tasks() -> list[Task]:
    rows = (
        [("a", i) for i in range(5)] + [("b", i) for i in range(3)] + [("c", i) for i in range(7)]
    )
    return [Task.from_row({"id": f"{source}{i}"}, source=source) for source, i in rows]


def test_every_prefix_keeps_the_shares() -> None:
    mixture = Mixture(tasks(), {"a": 1, "b": 2, "c": 5}, seed=Seed(3), shuffle=True)
    counts: Counter[str] = Counter()
    for position in range(400):
        visit = mixture.visit(position)
        assert visit.position == position
        counts[visit.task.source] += 1
        for source, share in {"a": 1 / 8, "b": 2 / 8, "c": 5 / 8}.items():
            assert abs(counts[source] - share * (position + 1)) <= 1


def test_within_a_source_every_epoch_visits_every_task_once() -> None:
    mixture = Mixture(tasks(), {"a": 1, "b": 1, "c": 2}, seed=Seed(3), shuffle=True)
    visits = [mixture.visit(position) for position in range(200)]
    of_b = [visit.group_id for visit in visits if visit.task.source == "b"]
    for epoch in range(5):
        assert sorted(of_b[3 * epoch : 3 * epoch + 3]) == [f"b{i}/{epoch}" for i in range(3)]


def test_the_order_is_a_function_of_the_position() -> None:
    first = Mixture(tasks(), {"a": 1, "b": 1, "c": 1}, seed=Seed(1), shuffle=True)
    second = Mixture(tasks(), {"a": 1, "b": 1, "c": 1}, seed=Seed(1), shuffle=True)
    assert second.visit(37) == first.visit(37)
    assert [first.visit(i) for i in range(40)] == [second.visit(i) for i in range(40)]


@pytest.mark.parametrize("weights", [{"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1, "d": 1}])
def test_every_source_has_tasks_and_a_weight(weights: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="need tasks and a weight each"):
        Mixture(tasks(), weights, seed=Seed(1), shuffle=True)


def test_a_ledger_of_several_sources_resumes_and_refuses_other_shares(tmp_path: str) -> None:
    path = f"{tmp_path}/ledger"
    weights = {"a": 1.0, "b": 1.0, "c": 2.0}
    with Ledger.open(path, tasks(), seed=Seed(5), weights=weights) as ledger:
        issued = [visit.group_id for visit in ledger.issue(6)]
        ledger.finish(issued[0], {StopReason.ANSWERED: 1})
    with Ledger.open(path, tasks(), seed=Seed(5), weights=weights) as ledger:
        assert [visit.group_id for visit in ledger.unfinished()] == issued[1:]
    with pytest.raises(ConfigError, match="other tasks or another order"):
        Ledger.open(path, tasks(), seed=Seed(5), weights={**weights, "c": 3.0})
