"""A product as the shop keeps it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """Everything that a page shows, a search finds and a reward weighs.

    There is one object of it in a shop, which is what caches know it by.
    """

    asin: str
    """What it is known by: `B06Y3VLDFB`."""
    title: str
    description: str = ""
    features: tuple[str, ...] = ()
    """Its bullet points."""
    price: float = 100.0
    """What is really paid; one draw between the two where the tag names two prices."""
    price_tag: str = "$100.0"
    """What is shown: `$19.99`, or `$19.99 to $27.99`."""
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What can be chosen: `(("color", ("red", "blue")), ("size", ("small",)))`."""
    attributes: tuple[str, ...] = ()
    """What is known to be true of it: `("easy clean", "solid wood")`."""
    query: str = ""
    """The words by which such things are looked for: `console tables`."""
    categories: frozenset[str] = frozenset()
    """The names along its path through the departments."""

    @property
    def indexed_text(self) -> str:
        """What a search looks through.

        >>> Product(asin="G1", title="Red Scarf", options=(("size", ("s", "m")),)).indexed_text
        'red scarf   size: s, m'
        """
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options)
        first_feature = self.features[0] if self.features else ""
        return " ".join((self.title, self.description, first_feature, options)).lower()
