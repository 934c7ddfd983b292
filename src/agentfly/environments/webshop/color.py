"""Colors by their plain names, so that `dark navy blue` and `blue` are one choice."""

_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown
burgundy camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee
cognac copper coral cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold
granite grape graphite grass gray green grey heather indigo ivory ivy khaki lavender lemon
leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal
rust sand sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal
tiger turquoise violet walnut wheat white wine yellow
"""
COLORS = tuple(_NAMES.split())
"""In the order in which the published reward looks for them (arXiv:2207.01206)."""


def plain_color(value: str) -> str:
    """Return the first color of the list that occurs in a value; without one, the value.

    Any value is looked at, and anywhere within words, as the published reward does.

    >>> plain_color("dark navy blue"), plain_color("tailored"), plain_color("x-large")
    ('blue', 'red', 'x-large')
    """
    return next((color for color in COLORS if color in value), value)
