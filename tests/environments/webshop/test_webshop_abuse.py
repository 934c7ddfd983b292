"""Many sessions at once with any actions: nothing breaks, and none sees another.

What some of the sessions were shown is compared with what they are shown alone, in a new shop.
"""

import threading
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from agentfly.environments.webshop import (
    Goal,
    WebShop,
    WebShopOptions,
    environment,
    judge,
    shop,
    storefront,
)
from agentfly.environments.webshop.navigation import (
    AtDetail,
    AtEnd,
    AtItem,
    AtResults,
    Location,
    follow_click,
)
from agentfly.environments.webshop.page import Label, Piece
from agentfly.environments.webshop.shop import open_shop, training_tasks
from agentfly.types import Seed, Step, Task

SESSIONS = 500
REPLAYED = 25
"""Of so many sessions one is replayed."""
CHOICES: dict[str, Any] = {"level": "medium", "products": 600, "page_size": 4}
NONSENSE = (
    "",
    "click[]",
    "click[",
    "search[",
    "]",
    "click[☃]",
    "search[\x00]",
    "search[" + "a" * 3000 + "]",
    "click[click[red]]",
    "SEARCH[MUG]",
    "click[buy now",
    "buy",
    "click[G9999]",
    "search[' OR 1=1 --]",
    "\ud800",
)


class Fuzzer:
    """Plays one session at random and checks every answer."""

    def __init__(self, number: int, task: Task) -> None:
        self.random = Random(number)
        self.task = task
        self.session = WebShop(**CHOICES)
        self.shop = open_shop(self.session.options)
        self.words = str(task.fields["instruction"]).split()
        self.log: list[tuple[str | None, Step | str]] = []
        """Each action with its answer; None begins the session again."""
        self.begin()

    def begin(self) -> None:
        said = self.session.reset(self.task, Seed(0)).observation
        assert str(self.task.fields["instruction"]) in said
        assert self.session.verdict is None
        self.log.append((None, said))

    def step(self) -> None:
        before, action = self.session.location, self.action()
        step = self.session.step(action)
        self.log.append((action, step))
        assert step.observation
        assert step.state_key == self.session.location.key
        assert self.session.goal.id == self.task.id
        if step.invalid:
            assert self.session.location == before
        if step.done:
            self.check_purchase(step)
            self.begin()
        else:
            assert step.reward is None
            self.check_place()

    def action(self) -> str:
        dice = self.random.random()
        if dice < 0.05:
            return self.random.choice(NONSENSE)
        if self.session.page.has_search_box:
            count = self.random.randint(1, len(self.words))
            return f"search[{' '.join(self.words[:count])}]"
        return f"click[{self.random.choice(list(self.session.page.clickables))}]"

    def check_place(self) -> None:
        location = self.session.location
        if isinstance(location, AtResults):
            assert 1 <= location.number <= 13
        if isinstance(location, AtDetail):
            assert location.detail in ("Description", "Features", "Reviews")
            location = location.item
        if isinstance(location, AtItem):
            offered = dict(self.shop.product(location.asin).options)
            assert all(value in offered[name] for name, value in location.chosen)

    def check_purchase(self, step: Step) -> None:
        assert isinstance(self.session.location, AtEnd)
        assert step.reward is not None
        assert 0.0 <= step.reward <= 1.0
        item, goal = self.session.location.item, Goal.from_row(self.task.fields)
        assert step.info["asin"] == item.asin
        chosen = [value for _, value in item.chosen]
        verdict = judge(self.shop.product(item.asin), chosen, goal, self.shop.product(goal.asin))
        assert step.reward == verdict.reward
        assert step.info["success"] == (step.reward == 1.0)

    def replay(self) -> None:
        session = WebShop(**CHOICES)
        for action, seen in self.log:
            alone = session.step(action) if action is not None else self.again(session)
            assert alone == seen, action

    def again(self, session: WebShop) -> str:
        return session.reset(self.task, Seed(0)).observation


def fuzz(steps: int, threads: int) -> Counter[str]:
    """Play at random, and again alone; return how much was done of what."""
    tasks = [Task.from_row(row) for row in training_tasks(WebShopOptions(**CHOICES))[:SESSIONS]]
    fuzzers = [Fuzzer(number, task) for number, task in enumerate(tasks)]
    problems: list[BaseException] = []

    def work(share: list[Fuzzer]) -> None:
        try:
            for _ in range(steps // SESSIONS):
                for fuzzer in share:
                    fuzzer.step()
        except BaseException as problem:  # noqa: BLE001 - told by the thread that waits
            problems.append(problem)

    workers = [
        threading.Thread(target=work, args=(fuzzers[number::threads],)) for number in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if problems:
        raise problems[0]
    storefront._storefront.cache_clear()
    shop._shop.cache_clear()
    for fuzzer in fuzzers[::REPLAYED]:
        fuzzer.replay()
    answers = [seen for fuzzer in fuzzers for _, seen in fuzzer.log if isinstance(seen, Step)]
    bought, refused = (sum(one.done for one in answers), sum(one.invalid for one in answers))
    return Counter(steps=len(answers), bought=bought, refused=refused)


def require_all_sorts(done: Counter[str], steps: int) -> None:
    assert done["steps"] == steps
    assert done["bought"] > steps / 100
    assert done["refused"] > steps / 100


def test_calls_of_one_session_that_run_at_once_follow_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task.from_row(training_tasks(WebShopOptions(**CHOICES))[0])
    session = WebShop(**CHOICES)
    session.reset(task, Seed(0))
    session.search("cup")
    label = next(iter(session.page.clickables))
    arrived = threading.Barrier(2)

    def slowly(location: Location, piece: Piece) -> Location:
        with suppress(threading.BrokenBarrierError):
            arrived.wait(timeout=0.3)  # Both calls are here, unless one waits for the other.
        return follow_click(location, piece)

    monkeypatch.setattr(environment, "follow_click", slowly)
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(session.click, [label, label]))
    assert sorted(one.invalid for one in answers) == [False, True]


def test_twenty_thousand_random_steps_of_500_sessions() -> None:
    require_all_sorts(fuzz(20_000, threads=4), 20_000)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_million_random_steps_of_500_sessions() -> None:
    require_all_sorts(fuzz(1_000_000, threads=8), 1_000_000)


def test_a_thousand_sessions_take_a_few_megabytes() -> None:
    tasks = [Task.from_row(row) for row in training_tasks(WebShopOptions(**CHOICES))[:1000]]

    def opened(task: Task) -> WebShop:
        session = WebShop(**CHOICES)
        session.reset(task, Seed(0))
        session.search(str(task.fields["instruction"]))
        session.click(str(task.fields["asin"]))
        return session

    kept = [opened(task) for task in tasks]  # What sessions share is made before counting.
    tracemalloc.start()
    kept += [opened(task) for task in tasks]
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 4_000_000


def test_threads_that_begin_together_open_one_shop() -> None:
    task = Task.from_row(training_tasks(WebShopOptions(level="easy", products=30))[0])
    sessions = [WebShop(level="easy", products=30, page_size=7) for _ in range(16)]
    threads = [threading.Thread(target=one.reset, args=(task, Seed(0))) for one in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        session.search("mug frame")
    assert len({id(session.page) for session in sessions}) == 1


def test_interleaved_sessions_end_as_they_would_alone() -> None:
    rows = training_tasks(WebShopOptions(**CHOICES))[:50]

    def actions(row: dict[str, object], number: int) -> list[str]:
        random = Random(number)
        words = str(row["instruction"]).split()
        return [f"search[{' '.join(random.sample(words, 3))}]", f"click[{row['asin']}]"] + [
            random.choice(["click[features]", "click[< prev]", "click[next >]", "click[red]"])
            for _ in range(10)
        ]

    def begin(row: dict[str, object]) -> WebShop:
        session = WebShop(**CHOICES)
        session.reset(Task.from_row(row), Seed(0))
        return session

    plans = [actions(row, number) for number, row in enumerate(rows)]
    alone = []
    for row, plan in zip(rows, plans, strict=True):
        session = begin(row)
        alone.append([session.step(action) for action in plan])
    sessions = [begin(row) for row in rows]
    together: list[list[Step]] = [[] for _ in rows]
    for turn in range(len(plans[0])):
        for number, session in enumerate(sessions):
            together[number].append(session.step(plans[number][turn]))
    assert together == alone


def test_every_button_is_one_that_the_shop_knows() -> None:
    task = Task.from_row(training_tasks(WebShopOptions(**CHOICES))[0])
    session = WebShop(**CHOICES)
    session.reset(task, Seed(0))
    session.search(str(task.fields["name"]))
    session.click(str(task.fields["asin"]))
    assert {label.lower() for label in Label} - set(session.page.clickables) == {"next >"}
