"""A person's visit to the shop in a browser: one session, its history and the expert in it."""

import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from agentfly.environments.player import Scene
from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.navigation import AtEnd, AtSearch, Click, Search, write_action
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players import play_expert
from agentfly.environments.webshop.shop import held_out_tasks
from agentfly.types import Seed, Task

MAX_VISITS = 1000
"""Maximum number of open visits; beyond it the least recently used one is dropped."""
MAX_HISTORY = 200
"""Number of last actions that a visit keeps."""


class SiteExpert:
    """The scripted expert in a person's session. It always starts with a search."""

    def __init__(self, task: Task, opening: str) -> None:
        self._scene = Scene(task=task, observation=opening, random=Random(0))
        self._playing: Generator[Search | Click, str, None] | None = None
        self.gave_up = False
        """Whether it found nothing to buy."""

    def restart(self) -> None:
        """Start again with a search at the next action."""
        self._playing, self.gave_up = None, False

    def next_action(self, session: WebShop, observation: str) -> str | None:
        """Return its next action after the last observation; None if nothing is left to do."""
        if isinstance(session.location, AtEnd) or self.gave_up:
            return None
        if self._playing is None and not isinstance(session.location, AtSearch):
            return write_action(Click(Label.BACK_TO_SEARCH.lower()))
        try:
            return write_action(self._next(observation))
        except StopIteration:
            self.gave_up = True
            return None

    def _next(self, observation: str) -> Search | Click:
        if self._playing is not None:
            return self._playing.send(observation)
        self._playing = play_expert(self._scene)
        return next(self._playing)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One action in the shop and its observation."""

    action: str
    observation: str
    by_expert: bool


@dataclass(slots=True, kw_only=True)
class Visit:
    """A session with its history."""

    id: str
    task: Task
    session: WebShop
    observation: str
    """Current observation of an agent."""
    history: deque[HistoryEntry] = field(default_factory=lambda: deque(maxlen=MAX_HISTORY))
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while an action is performed or the page is rendered."""
    expert: SiteExpert

    def act(self, action: str) -> None:
        """Perform an agent's action."""
        with self.lock:
            self.expert.restart()  # The person has moved the session elsewhere.
            self._do(action, by_expert=False)

    def let_expert_act(self) -> None:
        """Perform the expert's next action."""
        with self.lock:
            self._expert_acts()

    def let_expert_finish(self) -> None:
        """Let the expert play until it has bought something or given up."""
        with self.lock:
            while self._expert_acts():
                pass

    def _expert_acts(self) -> bool:
        action = self.expert.next_action(self.session, self.observation)
        if action is not None:
            self._do(action, by_expert=True)
        return action is not None

    def _do(self, action: str, *, by_expert: bool) -> None:
        self.observation = self.session.step(action).observation
        self.history.append(
            HistoryEntry(action=action, observation=self.observation, by_expert=by_expert)
        )


class Visits:
    """All open visits. Each new one gets the next held-out goal."""

    def __init__(self, options: WebShopOptions) -> None:
        self._options = options
        self._tasks: Sequence[Mapping[str, Any]] = held_out_tasks(options)
        self._numbers = count()
        self._open: OrderedDict[str, Visit] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self) -> Visit:
        """Open a new visit."""
        task = Task.from_row(self._tasks[next(self._numbers) % len(self._tasks)])
        session = WebShop(**self._options.model_dump())
        opening = session.reset(task, Seed(0)).observation
        visit = Visit(
            id=secrets.token_hex(16),
            task=task,
            session=session,
            observation=opening,
            expert=SiteExpert(task, opening),
        )
        with self._lock:
            self._open[visit.id] = visit
            if len(self._open) > MAX_VISITS:
                self._open.popitem(last=False)
        return visit

    def find(self, visit: str) -> Visit | None:
        """Return an open visit; None if there is none with this id."""
        with self._lock:
            if visit in self._open:
                self._open.move_to_end(visit)
            return self._open.get(visit)
