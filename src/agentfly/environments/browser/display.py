"""What a model sees of a page: one of its parts, or what has changed."""

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
        """Show a page; return its text, or by option what has changed since the last time."""
        before, self.page = self.page, page
        if before is None or before.document != page.document:
            self.part = 0
        elif self._changes_only and not whole:
            return page.changes(before)
        parts = page.parts(self._part_chars)
        self.part = min(self.part, len(parts) - 1)
        first, last = parts[self.part]
        lines = [page.header, *page.lines[first:last]]
        if len(parts) > 1:
            more = " The page has even more." if page.cut else ""
            lines.append(f"Part {self.part + 1} of {len(parts)}.{more}")
        return "\n".join(lines)

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
