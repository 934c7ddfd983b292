"""The environment: one session in the shop for one chain."""

import re
from threading import Lock
from typing import Any, ClassVar

from agentfly.environments.webshop.goal import Goal
from agentfly.environments.webshop.navigation import (
    MAX_QUERY,
    AtEnd,
    AtItem,
    AtResults,
    AtSearch,
    Click,
    Location,
    Search,
    follow_click,
    parse_action,
)
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.page import SEARCH_PAGE, Label, Page, Piece
from agentfly.environments.webshop.purchase import Verdict, judge
from agentfly.environments.webshop.storefront import Storefront, open_storefront
from agentfly.errors import EnvError
from agentfly.resources import ClientOptions, Pooling
from agentfly.types import Seed, Step, Task

SHOWN_ACTIONS = 40
"""Maximum number of possible actions that are listed after an impossible one."""

_AMOUNT = re.compile(r"(?:(?<=\$)|(?<=price lower than ))\d+(?=\.)")
"""Dollars of a price or of the limit."""
_SHOWN_LABEL = re.compile(r"(?:click)?\[(?P<text>[^\[\]]+)\]|\((?P<chosen>.+)\)")
"""A label as pages and lists of possible actions show it."""


class WebShop:
    """A shop that answers the actions `search[words]` and `click[label]`.

    Takes the fields of `WebShopOptions`: `WebShop(level="easy", page_size=3)`. A session holds
    its goal and its location; catalog, index and pages are shared by all sessions of the process.
    """

    pooling: ClassVar[Pooling] = Pooling(max_instances=10_000)
    client_options: ClassVar[ClientOptions] = {
        "observation": ("compact", "text", "rich"),
        "clickables": (False, True),
        "repeat_instruction": (None, False, True),
        "bracket_options": (False, True),
        "aligned_prices": (False, True),
        "page_size": tuple(range(1, 51)),
    }

    __slots__ = ("_front", "_goal", "_lock", "_visited", "location", "options", "page", "verdict")

    def __init__(self, **choices: Any) -> None:
        self.options = WebShopOptions(**choices)
        self.verdict: Verdict | None = None
        """Score of the purchase; None before it."""
        self.location: Location = AtSearch()
        """Current location in the shop."""
        self.page: Page = SEARCH_PAGE
        """Page at that location."""
        self._front: Storefront | None = None
        self._goal: Goal | None = None
        self._visited: frozenset[str] = frozenset()
        # A call that timed out may still run in its thread when the next one begins.
        self._lock = Lock()

    def reset(self, task: Task, seed: Seed) -> Step:
        """Start a session with a task's goal. The seed is unused: nothing in the shop is random."""
        del seed
        goal = Goal.from_row(task.fields)
        front = open_storefront(self.options)
        front.shop.product(goal.asin)
        self._front, self._goal = front, goal
        self.location, self.page = AtSearch(), SEARCH_PAGE
        self.verdict, self._visited = None, frozenset()
        return Step(observation=self._observation(), state_key=self.location.key)

    def step(self, action: str) -> Step:
        """Perform `search[words]` or `click[label]`; any other text changes nothing."""
        if self.options.actions == "last_line":
            action = action.strip().rpartition("\n")[2]
        match parse_action(action):
            case Search(query):
                return self.search(query)
            case Click(label):
                return self.click(label)
            case _:
                with self._lock:
                    return self._refuse("An action is search[words] or click[label].")

    def search(self, query: str) -> Step:
        """Search for words. Only the search page has a search box."""
        query = " ".join(query.lower().split())
        with self._lock:
            if not self.page.has_search_box:
                return self._refuse("There is no search box on this page.")
            if not query:
                return self._refuse("Search for some words.")
            if len(query) > MAX_QUERY:
                problem = f"A query has at most {MAX_QUERY} characters, not {len(query)}."
                return self._refuse(problem)
            return self._go(AtResults(query))

    def click(self, label: str) -> Step:
        """Click the button, link or option with this text, also as it is shown: `[Next >]`."""
        with self._lock:
            piece = self._clickable(label.strip().lower())
            if piece is None:
                return self._refuse(f"There is no {label.strip()[:80]!r} to click on this page.")
            return self._go(follow_click(self.location, piece))

    def _clickable(self, label: str) -> Piece | None:
        """Return what has this text, or the text in its brackets."""
        shown = _SHOWN_LABEL.fullmatch(label)
        labels = self.page.clickables
        return labels.get(label) or (
            labels.get(shown["text"] or shown["chosen"]) if shown else None
        )

    def buy(self) -> Step:
        """Buy this page's product with the chosen options, which ends the session."""
        return self.click(Label.BUY)

    def close(self) -> None:
        """Do nothing: a session holds no resources."""

    @property
    def goal(self) -> Goal:
        """Goal of the session."""
        if self._goal is None:
            raise EnvError("the session has not begun: call reset(task, seed) first")
        return self._goal

    @property
    def _shop_front(self) -> Storefront:
        if self._front is None:
            raise EnvError("the session has not begun: call reset(task, seed) first")
        return self._front

    def _go(self, location: Location) -> Step:
        self.location, self.page = location, self._shop_front.page(location)
        match location:
            case AtEnd(item):
                return self._bought(item)
            case AtItem(_, asin):
                self._visited |= {asin}
            case AtSearch():
                self._visited = frozenset()
        return Step(observation=self._observation(), state_key=location.key)

    def _bought(self, item: AtItem) -> Step:
        shop, goal = self._shop_front.shop, self.goal
        chosen = [value for _, value in item.chosen]
        verdict = judge(
            shop.product(item.asin),
            chosen,
            goal,
            shop.product(goal.asin),
            option_match=self.options.option_match,
        )
        self.verdict = verdict
        return Step(
            observation=self._shop_front.show(self.page, self.location),
            reward=verdict.reward,
            done=True,
            info={"asin": item.asin, "chosen": dict(item.chosen), **verdict.parts},
            state_key=self.location.key,
        )

    def _refuse(self, problem: str) -> Step:
        """Return an observation with the problem and the possible actions."""
        done = isinstance(self.location, AtEnd)
        text = f"{problem} {self._possible(SHOWN_ACTIONS)}"
        if done:
            text = "The purchase is made and the session has ended."
        return Step(observation=text, done=done, state_key=self.location.key, invalid=True)

    def _observation(self) -> str:
        instruction = self._instruction() if self._shows_instruction() else None
        text = self._shop_front.show(
            self.page, self.location, instruction=instruction, visited=self._visited
        )
        if self.options.aligned_prices:
            text = _AMOUNT.sub(lambda amount: amount[0].zfill(3), text)
        rest = self._possible() if self.options.clickables else ""
        return f"{text.removesuffix(chr(10))}\n{rest}" if rest else text

    def _instruction(self) -> str:
        goal, text = self.goal, self.goal.instruction
        if self.options.bracket_options:
            for name, value in zip(goal.option_names, goal.options, strict=False):
                text = text.replace(f"{name}: {value}", f"{name}: [{value}]")
        return text

    def _shows_instruction(self) -> bool:
        repeated = self.options.repeat_instruction
        if repeated is None:
            repeated = self.options.observation != "compact"
        return repeated or isinstance(self.location, AtSearch)

    def _possible(self, limit: int | None = None) -> str:
        actions = self.page.actions
        more = len(actions) - limit if limit else 0
        rest = f", and {more} more" if more > 0 else ""
        return f"Possible: {', '.join(actions[:limit])}{rest}"
