"""English sentences from templates, such as "The {object} is on the {furniture}."; a lexicon."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from random import Random

_SLOT = re.compile(r"\{(\w+)\}")

FACTS = (
    "The {object} is in the {furniture}.",
    "The {colour} {object} costs {n} {unit}.",
    "{person} is a {job} from {city}.",
    "{person} has {n} coins, a {food} and a {object}.",
    "The capital of {country} is {city}.",
    "{country} has a population of {big}.",
    "The {animal} lives near the {place} in {city}.",
    "{person} was born in {year}.",
    "The {place} of {city} was built in {year} by {person}.",
    "The {substance} is {state} at {n} degrees.",
    "The {product} comes in {colour}, {colour2} and {colour3}.",
    "The code of the {room} is {n}{n2}.",
    "A {plant} can grow {n} metres high.",
    "The {science} belongs in the {room}.",
    "{person} sells a {material} {product} for {n} {unit}.",
)
"""Statements that a tool may report and an assistant may repeat."""

SENTENCES = (
    *FACTS,
    "You are in the {room}. You see a {furniture}, a {furniture2} and a {object}.",
    "You {verb} the {object}. It is {quality}.",
    "You open the {furniture} {digit}. Inside, you see a {object} {digit2} and a {food} {digit3}.",
    "Your task is to {verb} the {quality} {object} and put it in the {furniture}.",
    "On the {furniture} {digit}, you see nothing.",
    "Go to the {furniture} {digit}, then {verb} the {food} {adverb}.",
    "To {science_verb} the {substance}, use the {science} in the {room}.",
    "The {substance} is now {state}, and the temperature is {n} degrees.",
    "I am looking for a {size} {colour} {product}, {quality}, with price lower than {n} dollars.",
    "Find me a {material} {product} that is {quality} and {quality2}.",
    "{person} {adverb} {suffixed} the {abstract} of the {abstract2}.",
    "What is the {abstract} of the {abstract2}, and {function} {function2} it?",
    "The {job} and the {job2} talk about {topic} at the {place}.",
    "If {person} buys {number_word} of the {food} and {number_word2} of the {food2}, how many?",
    "How old is the {animal} {function} the {place}?",
    "{function} {function2} {function3} {abstract} {suffixed} {function4} {abstract2}.",
    "The {suffixed} of {number_word} {abstract} is {suffixed2}.",
)
"""Topics of the text environments: homes, shops, laboratories, questions."""


@cache
def lexicon() -> Mapping[str, Sequence[str]]:
    """Return the words of each kind."""
    text = files(__package__).joinpath("lexicon.toml").read_text(encoding="utf-8")
    return {
        kind: [word.replace("_", " ") for word in words.split()]
        for kind, words in tomllib.loads(text).items()
    }


@cache
def all_words() -> Sequence[str]:
    """Return every word once."""
    return sorted({word for words in lexicon().values() for word in words})


def pick(rng: Random, kind: str) -> str:
    """Draw a word of a kind of the lexicon, or a number: `digit`, `n`, `year` or `big`."""
    match kind:
        case "digit":
            return str(rng.randint(1, 9))
        case "n":
            return str(rng.randint(2, 99))
        case "year":
            return str(rng.randint(1500, 2030))
        case "big":
            return str(rng.randint(1_000, 9_999_999))
    return rng.choice(lexicon()[kind])


def fill(template: str, rng: Random, **given: str) -> str:
    """Fill a template's slots; a digit after a slot's name distinguishes two slots of a kind.

    >>> fill("The {object} costs {n} dollars.", Random(0), n="7", object="pen")
    'The pen costs 7 dollars.'
    """
    chosen = dict(given)

    def word(slot: re.Match[str]) -> str:
        name = slot[1]
        if name not in chosen:
            chosen[name] = pick(rng, name.rstrip("0123456789"))
        return chosen[name]

    return _SLOT.sub(word, template)


def sentence(rng: Random) -> str:
    """Make one sentence about homes, shops, laboratories or people."""
    return fill(rng.choice(SENTENCES), rng)
