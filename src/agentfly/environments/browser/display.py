"""Text of a page for the model: one part of it, or the changes."""

import hashlib

from agentfly.environments.browser.snapshot import Snapshot


class Display:
    """The page as it was shown last, and which part of it."""

    def __init__(self, *, part_chars: int, changes_only: bool) -> None:
        self.page: Snapshot | None = None
        """None before the first page."""
        self.part = 0
        self._part_chars = part_chars
        self._changes_only = changes_only

    def show(self, page: Snapshot, *, whole: bool = False) -> str:
        """Show a page; return its part, or by option what has changed since the last time.

        Changes that are longer than a part are not shown: the part is.
        """
        before, self.page = self.page, page
        if before is None or before.document != page.document:
            self.part = 0
        elif self._changes_only and not whole:
            changes = page.changes(before)
            if len(changes) <= self._part_chars:
                return changes
        return self._part_of(page)

    def _part_of(self, page: Snapshot) -> str:
        parts = page.parts(self._part_chars)
        self.part = min(self.part, len(parts) - 1)
        first, last = parts[self.part]
        said = [f"Part {self.part + 1} of {len(parts)}."] if len(parts) > 1 else []
        said += ["The page has even more."] if page.cut else []
        lines = [page.header, *page.lines_within(self._part_chars)[first:last]]
        return "\n".join([*lines, " ".join(said)] if said else lines)

    def turn(self, by: int) -> int | None:
        """Go to the next or the previous part.

        Returns:
            The number of its first element; None if there is no such part.
        """
        parts = self.page.parts(self._part_chars) if self.page else []
        if self.page is None or not 0 <= self.part + by < len(parts):
            return None
        self.part += by
        return self.page.items[parts[self.part][0]].id

    @property
    def state_key(self) -> str:
        """Key of the page: equal keys mean equal addresses and elements."""
        seen = "\0".join((self.page.url, *self.page.lines)) if self.page else ""
        return hashlib.blake2b(seen.encode(errors="replace"), digest_size=16).hexdigest()
