"""A generated office: its people, its stock, and tasks in it. A seed determines everything."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

FIRST = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gwen",
    "Hugo",
    "Iris",
    "Jack",
    "Kira",
    "Leo",
    "Mia",
    "Nora",
    "Owen",
    "Pia",
    "Quin",
    "Rosa",
]
LAST = [
    "Adler",
    "Baker",
    "Cole",
    "Drake",
    "Ellis",
    "Frost",
    "Grant",
    "Hayes",
    "Irwin",
    "Jones",
    "Klein",
    "Lane",
    "Moss",
    "Nash",
]
TEAMS = ("red", "blue", "green", "sales", "legal")
KINDS = ("chair", "desk", "lamp", "shelf", "plant", "screen", "mouse", "cable", "board", "clock")
COLORS = ("black", "white", "brown", "gray", "orange", "silver")
SIZES: Mapping[str, tuple[int, int]] = {"easy": (5, 5), "medium": (15, 12), "hard": (60, 40)}
"""Number of people and of items by level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Someone who works in the office."""

    name: str
    team: str
    room: int
    phone: str
    remote: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """Something in stock."""

    name: str
    price: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeTask:
    """An instruction, and the form that answers it."""

    instruction: str
    form: str
    """Path of the form that ends the task."""
    wanted: Mapping[str, str]
    """Values that the form must have."""


@dataclass(slots=True, kw_only=True)
class Office:
    """The state of the office in one chain."""

    people: list[Person]
    stock: tuple[Item, ...]
    task: OfficeTask
    sent: dict[str, str] | None = field(default=None)
    """Values of the form that ended the task; None before."""
    sent_to: str = ""

    @property
    def score(self) -> float:
        """Share of the right values, if the right form was sent."""
        if self.sent is None or self.sent_to != self.task.form:
            return 0.0
        right = [
            self.sent.get(name, "").strip().lower() == value.lower()
            for name, value in self.task.wanted.items()
        ]
        return sum(right) / len(right)


def make_office(kind: str, seed: int, level: str) -> Office:
    """Make the office of a seed, with a task of this kind in it."""
    random = Random(f"office {level} {kind} {seed}")
    people_count, item_count = SIZES[level]
    names = random.sample([f"{first} {last}" for first in FIRST for last in LAST], people_count)
    phones = random.sample(range(1000, 10_000), people_count)
    people = [
        Person(
            name=name,
            team=random.choice(TEAMS),
            room=random.randint(100, 399),
            phone=str(phone),
            remote=random.random() < 0.5,
        )
        for name, phone in zip(names, phones, strict=True)
    ]
    labels = random.sample([f"{color} {what}" for color in COLORS for what in KINDS], item_count)
    prices = random.sample(range(5, 500), item_count)
    stock = tuple(
        Item(name=label, price=price, amount=random.randint(1, 40))
        for label, price in zip(labels, prices, strict=True)
    )
    return Office(people=people, stock=stock, task=TASKS[kind](random, people, stock))


TaskMaker = Callable[[Random, list[Person], tuple[Item, ...]], OfficeTask]


def _lookup(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    person, field_name = random.choice(people), random.choice(("phone", "room"))
    value = person.phone if field_name == "phone" else str(person.room)
    what = "phone number" if field_name == "phone" else "room"
    return OfficeTask(
        instruction=f'What is the {what} of "{person.name}"? Enter it on the page Answer.',
        form="/answer",
        wanted={"answer": value},
    )


def _extreme(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    word, choose = random.choice((("most expensive", max), ("cheapest", min)))
    found = choose(stock, key=lambda item: item.price)
    return OfficeTask(
        instruction=f"Which item in stock is the {word}? Enter its name on the page Answer.",
        form="/answer",
        wanted={"answer": found.name},
    )


def _count(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    team = random.choice(people).team
    count = sum(person.team == team for person in people)
    return OfficeTask(
        instruction=f'How many people are in the team "{team}"? Enter the number on the page '
        "Answer.",
        form="/answer",
        wanted={"answer": str(count)},
    )


def _edit(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    place = random.randrange(len(people))
    person = people[place]
    team = random.choice([one for one in TEAMS if one != person.team])
    phone = str(random.randint(1000, 9999))
    return OfficeTask(
        instruction=f'Change the record of "{person.name}": the team is "{team}" now, and the '
        f'phone is "{phone}".',
        form=f"/staff/{place}",
        wanted={"team": team, "phone": phone, "remote": "yes" if person.remote else ""},
    )


def _order(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    place = random.randrange(len(stock))
    amount = random.randint(2, 20)
    return OfficeTask(
        instruction=f'Order {amount} of the item "{stock[place].name}" from the stock.',
        form=f"/stock/{place}",
        wanted={"amount": str(amount)},
    )


def _request(random: Random, people: list[Person], stock: tuple[Item, ...]) -> OfficeTask:
    kind, color = random.choice(KINDS), random.choice(COLORS)
    name, urgent = random.choice(people).name, random.random() < 0.5
    amount = random.randint(1, 9)
    return OfficeTask(
        instruction=f'Send a request for "{name}": {amount} of kind "{kind}" in color "{color}"'
        + (", urgent." if urgent else ", not urgent."),
        form="/request",
        wanted={
            "name": name,
            "kind": kind,
            "color": color,
            "amount": str(amount),
            "urgent": "yes" if urgent else "",
        },
    )


TASKS: Mapping[str, TaskMaker] = MappingProxyType(
    {
        "lookup": _lookup,
        "extreme": _extreme,
        "count": _count,
        "edit": _edit,
        "order": _order,
        "request": _request,
    }
)
"""Makers of tasks by their kinds."""
