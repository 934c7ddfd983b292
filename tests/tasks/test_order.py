from collections import Counter

import pytest

from agentfly.errors import ConfigError
from agentfly.tasks import Order, load_tasks
from agentfly.types import Seed, Task


def tasks(names: str) -> list[Task]:
    return load_tasks([{"question": name} for name in names])


def question(order: Order, position: int) -> str:
    return str(order.visit(position).task.fields["question"])


def test_every_epoch_visits_every_row_once() -> None:
    order = Order(tasks("abcdefgh"), seed=Seed(3), shuffle=True)
    epochs = [
        "".join(question(order, epoch * 8 + place) for place in range(8)) for epoch in range(4)
    ]
    assert [sorted(epoch) for epoch in epochs] == [list("abcdefgh")] * 4
    assert len(set(epochs)) == 4, "each epoch has an order of its own"
    again = Order(tasks("abcdefgh"), seed=Seed(3), shuffle=True)
    assert "".join(question(again, 16 + place) for place in range(8)) == epochs[2]
    other = Order(tasks("abcdefgh"), seed=Seed(4), shuffle=True)
    assert "".join(question(other, place) for place in range(8)) != epochs[0]


def test_the_shuffle_is_fair() -> None:
    order = Order(tasks("abc"), seed=Seed(0), shuffle=True)
    firsts = Counter(question(order, 3 * epoch) for epoch in range(600))
    assert all(150 < firsts[name] < 250 for name in "abc"), "200 each, four standard deviations"


def test_without_shuffling_rows_come_as_listed() -> None:
    order = Order(tasks("ab"), seed=Seed(0), shuffle=False)
    assert [question(order, position) for position in range(5)] == list("ababa")
    assert [order.visit(position).number for position in range(5)] == [0, 0, 1, 1, 2]
    assert [order.visit(position).position for position in range(5)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("shuffle", [True, False])
def test_equal_rows_get_visits_of_their_own(shuffle: bool) -> None:
    order = Order(tasks("xyxx"), seed=Seed(5), shuffle=shuffle)
    visits = [order.visit(position) for position in range(12)]
    assert len({visit.group_id for visit in visits}) == 12
    x = tasks("x")[0].id
    assert [visit.number for visit in visits if visit.task.id == x] == list(range(9))


def test_the_digest_distinguishes_tasks_and_their_order() -> None:
    def digest(names: str) -> str:
        return Order(tasks(names), seed=Seed(0), shuffle=True).digest

    assert digest("abc") == digest("abc")
    assert len({digest("abc"), digest("acb"), digest("ab"), digest("abcc")}) == 4


def test_one_id_means_one_task() -> None:
    first = load_tasks([{"id": 1, "question": "x"}], source="easy")
    second = load_tasks([{"id": 1, "question": "y"}], source="hard")
    with pytest.raises(ConfigError, match=r"the id '1' \(sources 'easy' and 'hard'\)"):
        Order([*first, *second], seed=Seed(0), shuffle=True)


def test_no_tasks_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="there are no tasks"):
        Order([], seed=Seed(0), shuffle=True)
