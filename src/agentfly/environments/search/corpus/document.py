"""A document, as its file has it, before it is cut into passages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text with a title.

    >>> Document(id="cats", title="Cats", text="Cats purr.").where
    'cats'
    """

    id: str
    title: str
    text: str
    where: str = ""
    """File and line that it came from, for messages."""

    def __post_init__(self) -> None:
        if not self.where:
            object.__setattr__(self, "where", self.id)
