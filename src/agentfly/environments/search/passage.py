"""What is searched for and found."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text that is found as a whole.

    >>> Passage(id="Askel", title="Askel", text="Askel lies on the Umber.").headed
    'Askel: Askel lies on the Umber.'
    """

    id: str
    """What `open_page` takes: the corpus's own id, or a page's address."""
    title: str
    text: str

    @property
    def headed(self) -> str:
        """Title and text on one line."""
        return f"{self.title}: {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found, and how well it fits."""

    passage: Passage
    score: float
    """Higher is better; comparable only among the hits of one search."""
