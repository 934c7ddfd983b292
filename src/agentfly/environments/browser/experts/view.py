"""A page as scripted players read it: the same text that models see."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from agentfly.environments.browser.snapshot import Item, read_items
from agentfly.environments.player import Play, Say, call
from agentfly.errors import EngineError

Solver = Callable[[str, "View"], Play]
"""Solves a task: takes the instruction and the first page, and yields actions."""

BUTTONS = ("button", "tab", "link", "clickable", "menuitem")
FIELDS = ("textbox", "password", "spinbutton", "date", "time")
MAX_LOOKS = 40
"""Maximum number of times to look again at a page that is still changing."""


@dataclass(frozen=True)
class View:
    """An observation with the items in it."""

    text: str

    @cached_property
    def items(self) -> list[Item]:
        """Items in reading order."""
        return read_items(self.text)

    def of(self, *roles: str) -> list[Item]:
        """Return the items of these roles."""
        return [item for item in self.items if item.role in roles]

    def find(self, name: str, *roles: str) -> Item | None:
        """Return the first item with this name, of these roles if any are given."""
        wanted = " ".join(name.split())
        return next((item for item in self._among(roles) if item.name == wanted), None)

    def get(self, name: str, *roles: str) -> Item:
        """Return the first item with this name, else the first that contains it."""
        found = self.find(name, *roles)
        return found or self.first(lambda item: " ".join(name.split()) in item.name, *roles)

    def first(self, holds: Callable[[Item], bool], *roles: str) -> Item:
        """Return the first item for which something holds."""
        found = next((item for item in self._among(roles) if holds(item)), None)
        if found is None:
            raise EngineError(f"the expert does not find what it needs in: {self.text[:500]}")
        return found

    def _among(self, roles: tuple[str, ...]) -> list[Item]:
        return self.of(*roles) if roles else self.items


def click(item: Item) -> Say:
    """Return a click on an item."""
    return call("click", id=item.id)


def type_into(item: Item, text: str) -> Say:
    """Return the typing of a text into a field."""
    return call("type", id=item.id, text=text)


def quoted(goal: str) -> list[str]:
    """Return the texts between double quotes.

    >>> quoted('Enter "a b" as "user".')
    ['a b', 'user']
    """
    return re.findall(r'"(.*?)"(?![a-z])', goal)


def between(goal: str, start: str, end: str) -> str:
    """Return the text between two others.

    >>> between("Select 7v and click Submit.", "Select ", " and click")
    '7v'
    """
    found = re.search(f"{re.escape(start)}(.*?){re.escape(end)}", goal)
    if found is None:
        raise EngineError(f"the expert does not understand {goal!r}")
    return found.group(1)


def submit(page: View, label: str = "Submit") -> Say:
    """Return a click on a button that sends a form."""
    return click(page.get(label, *BUTTONS))
