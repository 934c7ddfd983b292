"""What somebody may have meant by an action that the simulator does not understand."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches

NOT_UNDERSTOOD = "No known action matches that input."
"""What the simulator says then."""
MIN_SIMILARITY = 0.6
"""How alike two actions must be, from 0 to 1, before one is taken for the other."""
MIN_NAME_SIMILARITY = 0.5
"""The same of two names of things, which are often said in part."""
NOT_SUGGESTED = ("reset task",)


def nearest_action(action: str, templates: Iterable[str], objects: Sequence[str]) -> str | None:
    """Return the most alike of all actions with things that are here, if any is alike enough.

    >>> nearest_action("put it there", ["move OBJ to OBJ", "eat OBJ"], ["apple", "red box"])
    >>> nearest_action("mov aple to the box", ["move OBJ to OBJ", "eat OBJ"], ["apple", "red box"])
    'move apple to red box'
    """
    said = " ".join(action.lower().split())
    likeness = {
        one: SequenceMatcher(None, said, one).ratio()
        for template in templates
        if template not in NOT_SUGGESTED
        for one in _filled(template, said, objects)
    }
    best = max(likeness, key=likeness.__getitem__, default=None)
    return best if best is not None and likeness[best] >= MIN_SIMILARITY else None


def _filled(template: str, said: str, objects: Sequence[str]) -> Iterator[str]:
    """Put the things that a text seems to name into a template.

    >>> list(_filled("pick up OBJ", "pickup aple", ["apple", "red box"]))
    ['pick up apple']
    """
    verb, *links = re.split(r" ?OBJ ?", template)
    if not links:
        yield template
        return
    count = len(verb.split())
    for skipped in (count, count - 1):  # One word less where two were written as one.
        rest = " ".join(said.split()[skipped:])
        named = rest.split(f" {links[0]} ", 1) if links[0] else [rest]
        things = [thing for name in named if (thing := _closest(name, objects))]
        if len(things) == len(links):
            pairs = zip(things, links, strict=True)
            yield " ".join(filter(None, (verb, *(part for pair in pairs for part in pair))))


def _closest(name: str, objects: Sequence[str]) -> str | None:
    return next(iter(get_close_matches(name, objects, n=1, cutoff=MIN_NAME_SIMILARITY)), None)
