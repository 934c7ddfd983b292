"""How generated goals are worded, in training and held out, and what brands are called."""

from random import Random

TRAINING = (
    "Find me {attributes} {things}",
    "I am looking for {attributes} {things}",
    "Show me {things} that are {attributes}",
    "I want to buy {things}, {attributes}",
    "Help me choose {attributes} {things}",
    "I would like {things} with {attributes}",
)
HELD_OUT = (
    "I need {things} which should be {attributes}",
    "Could you order {attributes} {things} for me",
    "We are out of {things}, ideally get {attributes}",
)
_BEGINNINGS = "Bel Cor Dal Fen Gar Hol Jun Kes Lor Mar Nor Or Pel Quin Ros Sol Tam Ul Ver Wen"
_ENDINGS = "ado beck caster dine ella fort gate hurst iro land mont nell ova pine quist rane"


def brand_names(random: Random) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make up brands: those of products to train on, and others for the held-out ones."""
    names = [begin + end for begin in _BEGINNINGS.split() for end in _ENDINGS.split()]
    random.shuffle(names)
    cut = len(names) * 4 // 5
    return tuple(names[:cut]), tuple(names[cut:])


def word_instruction(template: str, things: str, attributes: tuple[str, ...]) -> str:
    """Fill a template.

    >>> word_instruction(TRAINING[0], "mugs", ("non stick", "bpa free"))
    'Find me non stick, bpa free mugs'
    """
    return template.format(things=things, attributes=", ".join(attributes))
