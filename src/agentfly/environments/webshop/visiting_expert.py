"""The scripted expert in a person's session, so that one can watch an agent's moves."""

from collections.abc import Generator
from random import Random

from agentfly.environments.player import Scene
from agentfly.environments.webshop.action import Click, Search
from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.navigation import AtEnd, AtSearch
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players import play_expert, write_action
from agentfly.types import Task


class SiteExpert:
    """Says what the expert would do next. Wherever the session stands, it begins with a search."""

    def __init__(self, task: Task, opening: str) -> None:
        self._scene = Scene(task=task, observation=opening, random=Random(0))
        self._playing: Generator[Search | Click, str, None] | None = None
        self.gave_up = False
        """Whether it found nothing to buy."""

    def forget(self) -> None:
        """Begin anew with the next action."""
        self._playing, self.gave_up = None, False

    def next_action(self, session: WebShop, observation: str) -> str | None:
        """Return its next action after what was seen last; None if there is nothing left to do."""
        if isinstance(session.location, AtEnd) or self.gave_up:
            return None
        if self._playing is None and not isinstance(session.location, AtSearch):
            return write_action(Click(Label.BACK_TO_SEARCH.lower()))
        try:
            return write_action(self._next_move(observation))
        except StopIteration:
            self.gave_up = True
            return None

    def _next_move(self, observation: str) -> Search | Click:
        if self._playing is not None:
            return self._playing.send(observation)
        self._playing = play_expert(self._scene)
        return next(self._playing)
