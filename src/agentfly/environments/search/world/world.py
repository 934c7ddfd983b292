"""A world of linked facts: people, towns, companies, books, rivers and mountains.

There are two halves, one to train on and one that is held out. No fact links them and no word of a
name is in both, so no answer of the one can be learned from the other. Passages of both are in one
corpus.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from types import MappingProxyType

from agentfly.environments.search.retriever import Passage
from agentfly.environments.search.world.relation import RELATIONS, Relation
from agentfly.types import Seed

ONSETS = "b br d dr f g gr h k kl l m n p pl r s sk t tr v z".split()  # noqa: SIM905
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
CODAS = ("", "l", "m", "n", "r", "k", "x", "nd", "rt")


def invented_word(random: Random, syllables: int = 2) -> str:
    """Return an invented word.

    >>> invented_word(Random(4))
    'Hidraix'
    """
    parts = [random.choice(ONSETS) + random.choice(VOWELS) for _ in range(syllables)]
    return ("".join(parts) + random.choice(CODAS)).capitalize()


class Names:
    """Invents names that share no word.

    If two names shared a word, a search for one would find the other.
    """

    def __init__(self, random: Random, *, short: bool) -> None:
        self._random = random
        self._short = short
        self._words: set[str] = set()

    def new_name(self, kind: str) -> str:
        """Return a new name for an entity of this kind."""
        if self._short:
            return self._word()
        return _FULL[kind](self._fresh())

    def _fresh(self) -> Iterator[str]:
        while True:
            yield self._word()

    def _word(self) -> str:
        while (word := invented_word(self._random)).lower() in self._words:
            pass
        self._words.add(word.lower())
        return word


_FULL: dict[str, Callable[[Iterator[str]], str]] = {
    "person": lambda words: f"{next(words)} {next(words)}",
    "town": lambda words: next(words),
    "company": lambda words: f"{next(words)} Works",
    "book": lambda words: f"The {next(words)} of {next(words)}",
    "river": lambda words: f"River {next(words)}",
    "mountain": lambda words: f"Mount {next(words)}",
}


SHARES: Mapping[str, int] = MappingProxyType(
    {"person": 1, "town": 4, "company": 4, "book": 4, "river": 8, "mountain": 8}
)
"""Number of people per entity of each kind."""
HELD_OUT_SHARE = 3
"""Number of people to train on per held-out person."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, town, company, book, river or mountain."""

    name: str
    kind: str


@dataclass(frozen=True)
class Half:
    """Entities of one half, and the facts about them."""

    entities: tuple[Entity, ...]
    facts: Mapping[tuple[str, str], str]
    """Name of the object, by the names of subject and relation."""

    def walk(self, start: str, path: tuple[Relation, ...]) -> list[str]:
        """Return the names along a path, the start first."""
        names = [start]
        for relation in path:
            names.append(self.facts[names[-1], relation.name])
        return names


@dataclass(frozen=True, kw_only=True)
class World:
    """Both halves, made from a seed.

    >>> world = World(people=40, short=True, seed=0)
    >>> world.passages[0].text
    'Skelul was born in Paisur. Skelul works for Bedail. Skelul was taught by Vounaind.'
    """

    people: int
    """Number of people to train on; a third as many are held out."""
    short: bool
    """Whether names have one word and facts the simplest wording."""
    seed: int
    quoted: bool = False
    """Whether names are shown in quotation marks."""

    def show_name(self, name: str) -> str:
        """Return a name as questions and passages write it."""
        return f'"{name}"' if self.quoted else name

    @cached_property
    def train(self) -> Half:
        """The half to train on."""
        return self._halves[0]

    @cached_property
    def held_out(self) -> Half:
        """The half for evaluation alone."""
        return self._halves[1]

    @cached_property
    def passages(self) -> tuple[Passage, ...]:
        """One passage per entity, with its name as id."""
        random = Seed(self.seed).child("passages").random()
        return tuple(
            Passage(id=one.name, title=one.name, text=self._text(one, half, random))
            for half in self._halves
            for one in half.entities
            if _relations(one.kind)
        )

    def _text(self, entity: Entity, half: Half, random: Random) -> str:
        sentences = [
            (relation.says[0] if self.short else random.choice(relation.says)).format(
                s=self.show_name(entity.name),
                o=self.show_name(half.facts[entity.name, relation.name]),
            )
            for relation in _relations(entity.kind)
        ]
        if not self.short:
            random.shuffle(sentences)
        return " ".join(sentences)

    @cached_property
    def _halves(self) -> tuple[Half, Half]:
        random = Seed(self.seed).child("facts").random()
        names = Names(random, short=self.short)
        held_out = max(max(SHARES.values()), self.people // HELD_OUT_SHARE)
        return _half(self.people, names, random), _half(held_out, names, random)


def _half(people: int, names: Names, random: Random) -> Half:
    entities = [
        Entity(names.new_name(kind), kind)
        for kind, share in SHARES.items()
        for _ in range(max(2, people // share))
    ]
    return Half(tuple(entities), dict(_facts(entities, random)))


def _facts(entities: list[Entity], random: Random) -> Iterator[tuple[tuple[str, str], str]]:
    by_kind = {kind: [e for e in entities if e.kind == kind] for kind in SHARES}
    for entity in entities:
        for relation in _relations(entity.kind):
            linked = random.choice(by_kind[relation.object])
            while linked == entity:
                linked = random.choice(by_kind[relation.object])
            yield (entity.name, relation.name), linked.name


def _relations(kind: str) -> list[Relation]:
    return [relation for relation in RELATIONS if relation.subject == kind]
