"""What things are called: `drawer 3` for `drawer_bar__minus_02_dot_42_bar__plus_00_dot_17`."""

from collections import Counter
from collections.abc import Iterable

BAR = "_bar_"
"""What stands for the bar between kind and position in an id."""


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Number the things of each kind, from the last in order to the first.

    >>> display_names(["mug_bar_a", "mug_bar_b", "sink_bar_1_bar_sinkbasin", "agent1"])
    {'mug_bar_a': 'mug 2', 'mug_bar_b': 'mug 1', 'sink_bar_1_bar_sinkbasin': 'sinkbasin 1'}
    """
    kinds = {thing: _kind(thing) for thing in sorted(ids) if BAR in thing}
    left = Counter(kinds.values())
    names = {}
    for thing, kind in kinds.items():
        names[thing] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names


def make_id(kind: str, number: int) -> str:
    """Make an id of which `display_names` finds the kind.

    >>> make_id("drawer", 3), make_id("sinkbasin", 1)
    ('drawer_bar_03', 'sink_bar_01_bar_sinkbasin')
    """
    if kind.endswith("basin"):
        return f"{kind.removesuffix('basin')}{BAR}{number:02d}{BAR}{kind}"
    return f"{kind}{BAR}{number:02d}"


def _kind(thing: str) -> str:
    kind = thing.partition(BAR)[0]
    return f"{kind}basin" if "basin" in thing else kind
