"""Actions in a page by the numbers of its items; what can't be done is said in words."""

import asyncio
from collections.abc import Mapping
from typing import Any

from agentfly.environments.browser.address import MAX_SHOWN_URL, Access, complete_url
from agentfly.environments.browser.chromium import input
from agentfly.environments.browser.chromium.keyboard import NAMED_KEYS, parse_key
from agentfly.environments.browser.chromium.tab import Tab
from agentfly.environments.browser.site import Site
from agentfly.environments.browser.snapshot import Snapshot, quote

MAX_TEXT = 10_000
"""Maximum characters that one action types."""
MAX_READ = 4000
"""Maximum characters of an item's text in one answer."""
HOVER_SECONDS = 5.0
"""Time in which an element must appear again that vanished under the mouse."""
MAX_MOVES = 10
"""An element that has moved this often under the mouse is clicked where it was last."""
MAX_LISTED = 12
"""Maximum number of options that are listed after a wrong one."""

_PROBLEMS: Mapping[str, str] = {
    "gone": "Element {id} is no longer on the page.",
    "other": "The page has changed since you saw it.",
    "hidden": "Element {id} is hidden now.",
    "disabled": "Element {id} is disabled.",
    "covered": "Element {id} is covered by {by!r}.",
    "read only": "Element {id} can't be changed.",
    "no field": "Element {id} is no field to type into.",
    "no list": "Element {id} is no list to select from: click it.",
    "no focus": "Element {id} does not take the focus, so keys would go elsewhere.",
    "file": "Files can't be uploaded.",
    "no scroll": "Element {id} can't be scrolled.",
    "not a value": "Element {id} takes {example}.",
}
_EXAMPLES = {
    "date": "a date such as 2024-05-31",
    "time": "a time such as 14:30",
    "month": "a month such as 2024-05",
    "week": "a week such as 2024-W22",
    "datetime-local": "a time such as 2024-05-31T14:30",
    "color": "a color such as #ff0000",
    "range": "a number such as 50",
}


class ActionProblem(Exception):  # noqa: N818 - shown to the model, no error of ours
    """Action that can't be done; its text is the observation."""


class PageActions:
    """The actions that are possible in a tab, as its page was shown last."""

    def __init__(self, tab: Tab, shown: Snapshot | None, site: Site) -> None:
        self._tab = tab
        self._shown = shown
        self._site = site

    async def open(self, url: str) -> None:
        """Go to an address that the rules allow."""
        try:
            target = complete_url(url, self._here)
        except ValueError:
            raise ActionProblem(f"This is no valid address: {url[:MAX_SHOWN_URL]!r}") from None
        if self._site.rules.access(target) is Access.REFUSE:
            raise ActionProblem(f"This address is not allowed: {target[:MAX_SHOWN_URL]}")
        if problem := await self._tab.navigate(target):
            raise ActionProblem(f"The address can't be opened: {problem}")

    async def click(self, id: int) -> None:
        """Click with the mouse, after scrolling there."""
        at = await self._run("locate", id)
        await input.move_mouse(self._tab, at)
        at = await self._at_rest(id, at)
        self._require(at, id)
        await input.click(self._tab, {"x": at["x"], "y": at["y"]})

    async def _at_rest(self, id: int, at: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait until an element stays in its place under the mouse; return where it is.

        The page may react to the mouse: a picture for it is loaded, a menu opens.
        """
        loop = asyncio.get_running_loop()
        deadline, moves = loop.time() + HOVER_SECONDS, 0
        while loop.time() < deadline and moves < MAX_MOVES:
            again: Mapping[str, Any] = await self._tab.run("hover", id, self._document)
            if again == {**at, "over": True} and not self._tab.pending:
                break
            await self._tab.settled()
            moves += "problem" not in again
            at = again
        return at

    async def type(self, id: int, text: str) -> None:
        """Type over the content of a field."""
        text = _sendable(text)[:MAX_TEXT]
        ready = await self._run("field", id, text)
        if ready["done"]:
            return
        if text:
            await input.insert(self._tab, text)
        elif not ready["empty"]:
            await self.press("Backspace", None)

    async def select(self, id: int, option: str) -> None:
        """Choose an option by its text."""
        found = await self._tab.run("choose", id, _sendable(option), self._document)
        if found.get("problem") == "no option":
            raise ActionProblem(self._no_option(id, option))
        if found.get("problem") == "disabled option":
            raise ActionProblem(f"Option {option[:80]!r} of element {id} is disabled.")
        self._require(found, id)

    async def press(self, key: str, id: int | None) -> None:
        """Press a key."""
        parsed = parse_key(key[:40])
        if parsed is None:
            names = ", ".join(NAMED_KEYS)
            raise ActionProblem(
                f"There is no key {key[:40]!r}: name a character, one of {names}, or Control+a."
            )
        if id is not None:
            await self._run("focus", id)
        await input.press(self._tab, parsed)

    async def scroll(self, id: int, *, down: bool) -> str:
        """Scroll inside an item."""
        moved = await self._run("scroll", id, down)
        if not moved["moved"]:
            return f"Element {id} is at its {'bottom' if down else 'top'} already."
        return f"Element {id} is at its {moved['end']} now." if moved["end"] else "Scrolled."

    async def back(self) -> None:
        """Go back in the history."""
        if not await self._tab.back():
            raise ActionProblem("There is no page before this one.")

    async def read(self, id: int) -> str:
        """Return the whole text of an item, quoted as in the lines of a page."""
        text = str((await self._run("text", id))["text"])
        more = len(text) - MAX_READ
        return quote(text[:MAX_READ]) + (f" and {more} more characters" if more > 0 else "")

    @property
    def _here(self) -> str:
        """Address that others are relative to: a blank page and one of an error have none."""
        shown = self._shown.url if self._shown else ""
        return shown if shown.startswith("http") else self._site.start

    @property
    def _document(self) -> str | None:
        return self._shown.document if self._shown else None

    async def _run(self, function: str, id: int, *arguments: object) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._tab.run(function, id, *arguments, self._document)
        self._require(found, id)
        return found

    def _require(self, found: Mapping[str, Any], id: int) -> None:
        problem = found.get("problem")
        if problem is None:
            return
        if problem == "unknown":
            raise ActionProblem(f"There is no element {id} on this page.{self._range()}")
        example = _EXAMPLES.get(found.get("kind", ""), "another value")
        text = _PROBLEMS.get(problem, "That can't be done.")
        raise ActionProblem(text.format(id=id, by=found.get("by", ""), example=example))

    def _range(self) -> str:
        items = self._shown.items if self._shown else ()
        if not items:
            return ""
        numbers = [item.id for item in items]
        return f" Its numbers are {min(numbers)} to {max(numbers)}."

    def _no_option(self, id: int, option: str) -> str:
        found = [item for item in (self._shown.items if self._shown else ()) if item.id == id]
        options = found[0].options if found else ()
        listed = ", ".join(repr(one) for one in options[:MAX_LISTED])
        rest = f" and {len(options) - MAX_LISTED} more" if len(options) > MAX_LISTED else ""
        return f"Element {id} has no option {option[:80]!r}. It has {listed}{rest}."


def _sendable(text: str) -> str:
    """Replace lone surrogates, which can't be sent."""
    return text.encode("utf-16", "replace").decode("utf-16")
