"""A person's visit to the shop in a browser: one session, and what happened in it."""

import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.tasks import held_out_tasks
from agentfly.types import Seed, Task

MAX_VISITS = 1000
"""When there are more, the one that was left alone longest is forgotten."""

MAX_HISTORY = 200


@dataclass(slots=True, kw_only=True)
class Visit:
    """A session with its past."""

    id: str
    task: Task
    session: WebShop
    observation: str
    """What the agent would read now."""
    history: deque[tuple[str, str]] = field(default_factory=lambda: deque(maxlen=MAX_HISTORY))
    """The last actions, each with what it was answered."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def act(self, action: str) -> None:
        """Do what an agent would do by this action."""
        with self._one_at_a_time:
            self.observation = self.session.step(action).observation
            self.history.append((action, self.observation))


class Visits:
    """All visits, each with the next of the held-out goals."""

    def __init__(self, options: WebShopOptions) -> None:
        self._options = options
        self._tasks: Sequence[Mapping[str, Any]] = held_out_tasks(options)
        self._numbers = count()
        self._open: OrderedDict[str, Visit] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self) -> Visit:
        """Open a new session."""
        task = Task.from_row(self._tasks[next(self._numbers) % len(self._tasks)])
        session = WebShop(**self._options.model_dump())
        visit = Visit(
            id=secrets.token_hex(8),
            task=task,
            session=session,
            observation=session.reset(task, Seed(0)),
        )
        with self._lock:
            self._open[visit.id] = visit
            if len(self._open) > MAX_VISITS:
                self._open.popitem(last=False)
        return visit

    def find(self, visit: str) -> Visit | None:
        """Return a visit that is still open."""
        with self._lock:
            if visit in self._open:
                self._open.move_to_end(visit)
            return self._open.get(visit)
