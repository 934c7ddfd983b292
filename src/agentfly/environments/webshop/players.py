"""Scripted players of the shop.

The expert uses only the instruction and what the pages show, gold looks up the goal's product in
the catalog, and the random player clicks anything that can be clicked. Each is a generator of
actions; `to_player` turns it into calls of tools or plain text.
"""

import math
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace

from agentfly.environments.player import Play, Player, Say, Scene, call
from agentfly.environments.webshop.environment import WebShop
from agentfly.environments.webshop.goal import Goal
from agentfly.environments.webshop.navigation import MAX_QUERY, Click, Search, write_action
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.page_reader import Result, read_results, visible_pieces
from agentfly.environments.webshop.shop import open_shop
from agentfly.environments.webshop.text_match import content_words
from agentfly.types import Seed

ActionPlayer = Callable[[Scene], Generator[Search | Click, str, None]]
"""A player that yields actions and receives observations."""

MAX_INSPECTED = 3
"""Number of products that the expert looks at before it buys the best of them."""

_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars")
_OPTIONS = re.compile(r" with (?=(?:(?! with )[^:])+: )")
_INSTRUCTION = re.compile(r"Instruction:(?:\s|\[SEP\])*(.+?)\s*(?:\[SEP\]|\n|$)")

_AROUND = """
find show looking want buy help choose need order ideally get search please something item
"""
FILLER_WORDS = frozenset(_AROUND.split())
"""Words of an instruction that don't describe the product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedInstruction:
    """Parts of an instruction."""

    request: str
    """All but the maximum price, as it is written."""
    words: tuple[str, ...]
    """Kind of product and wanted attributes."""
    options: tuple[str, ...]
    """Values of options to choose."""
    price: float
    """Maximum price."""


def parse_instruction(observation: str) -> ParsedInstruction:
    """Parse the instruction on the first page.

    >>> parsed = parse_instruction("Instruction: Find me non stick pans with color: red, and size: "
    ...     "9 inch, and price lower than 40.00 dollars")
    >>> parsed.request
    'Find me non stick pans with color: red, and size: 9 inch'
    >>> parsed.words, parsed.options, parsed.price
    (('non', 'stick', 'pans'), ('red', '9 inch'), 40.0)
    >>> parse_instruction("Instruction: Find me pans with color: [red]").options
    ('red',)
    """
    found = _INSTRUCTION.search(observation)
    text = found.group(1) if found else observation
    price = _PRICE.search(text)
    request = _PRICE.sub("", text)
    asked, *options = _OPTIONS.split(request, maxsplit=1)
    words = [word for word in content_words(asked) if word not in FILLER_WORDS]
    return ParsedInstruction(
        request=request,
        words=tuple(dict.fromkeys(words)),
        options=tuple(
            _without_brackets(pair.partition(": ")[2])
            for pair in ", ".join(options).split(", and ")
            if pair
        ),
        price=float(price.group(1)) if price else float("inf"),
    )


def _without_brackets(value: str) -> str:
    return value[1:-1] if value.startswith("[") and value.endswith("]") else value


def play_expert(scene: Scene) -> Generator[Search | Click, str, None]:
    """Search, open the likeliest products, and buy the one that fits best.

    Labels are written as the page shows them: a small model copies tokens, not letters. The query
    is the whole request, which finds the same and can be copied whatever its wording.
    """
    wanted = parse_instruction(scene.observation)
    found = read_results((yield Search(wanted.request[:MAX_QUERY])))
    # The results are in a good order already; too expensive products go last.
    likeliest = sorted(found, key=lambda result: result.price > wanted.price)[:MAX_INSPECTED]
    fits: dict[str, float] = {}
    for result in likeliest:
        fits[result.asin] = yield from _look_at(result, wanted)
        if fits[result.asin] == 1:
            yield from _buy(wanted)
        yield Click(Label.PREVIOUS)
    if fits:
        yield Click(max(fits, key=lambda asin: fits[asin]))
        yield from _buy(wanted)


def _look_at(result: Result, wanted: ParsedInstruction) -> Generator[Search | Click, str, float]:
    """Open a product, and its features if they could complete the fit; return the fit."""
    page = yield Click(result.asin)
    fit = _fit(wanted, result, page)
    if fit == 1 or not _offers(wanted, page):
        return fit
    features = yield Click(Label.FEATURES)
    yield Click(Label.PREVIOUS)
    return _fit(wanted, result, f"{page}\n{features}")


def _buy(wanted: ParsedInstruction) -> Generator[Search | Click, str, None]:
    for value in wanted.options:
        yield Click(value)
    yield Click(Label.BUY)


def _offers(wanted: ParsedInstruction, page: str) -> bool:
    return set(wanted.options) <= set(visible_pieces(page))


def _fit(wanted: ParsedInstruction, result: Result, seen: str) -> float:
    """Return the share of the instruction that the texts seen of a product meet."""
    present = {_singular(word) for word in content_words(seen)}
    met = [_singular(word) in present for word in wanted.words]
    met += [result.price <= wanted.price, _offers(wanted, seen)]
    return sum(met) / len(met)


def _singular(word: str) -> str:
    return word.removesuffix("s")


def gold_player(options: WebShopOptions) -> ActionPlayer:
    """Return the gold player for a shop. The shop is opened when it first plays."""

    def play_gold(scene: Scene) -> Generator[Search | Click, str, None]:
        """Search for the product's title, page to it, choose the goal's options and buy."""
        goal = Goal.from_row(scene.task.fields)
        title = " ".join(open_shop(options).product(goal.asin).title.split())
        page = yield Search(title[:MAX_QUERY])
        while goal.asin not in visible_pieces(page):
            page = yield Click(Label.NEXT.lower())
        yield Click(goal.asin.lower())
        for value in goal.options:
            yield Click(value)
        yield Click(Label.BUY.lower())

    return play_gold


def random_player(options: WebShopOptions) -> ActionPlayer:
    """Return the random player for a shop. The shop is opened when it first plays."""

    def play_random(scene: Scene) -> Generator[Search | Click, str, None]:
        """Search for some of the instruction's words and click anything, until it has bought."""
        words = parse_instruction(scene.observation).words or ("item",)
        # A session of its own lists what can be clicked: a page's text does not tell in all forms.
        session = WebShop(**options.model_dump())
        session.reset(scene.task, Seed(0))
        while session.verdict is None:
            if session.page.has_search_box:
                picked = scene.random.sample(words, scene.random.randint(1, len(words)))
                query = " ".join(picked)[:MAX_QUERY]
                session.search(query)
                yield Search(query)
            else:
                label = scene.random.choice(list(session.page.clickables))
                session.click(label)
                yield Click(label)

    return play_random


def to_player(play: ActionPlayer, actions: str, *, compares: bool = False) -> Player:
    """Make a chat player, for one of the choices of `WebShopOptions.actions`.

    Args:
        play: Yields the actions.
        actions: Form of the actions, one of `WebShopOptions.actions`.
        compares: Whether it compares the prices of the results before it opens one of them.
    """
    ways = {"tools": _by_three_tools, "tool": _by_one_tool, "text": _in_text, "last_line": _in_text}
    say = ways[actions]

    def player(scene: Scene) -> Play:
        playing = play(scene)
        action, observation = next(playing), scene.observation
        limit = parse_instruction(scene.observation).price
        while True:
            said = say(action)
            if compares:
                lines = compare_prices(action, read_results(observation), limit)
                said = replace(said, words="\n".join([*lines, said.words]).strip())
            observation = yield said
            try:
                action = playing.send(observation)
            except StopIteration:
                return

    return player


def compare_prices(
    action: Search | Click, results: Sequence[Result], limit: float
) -> Iterator[str]:
    """Yield a line for each result up to the one that is opened, if there is a limit.

    So the one that is opened is always the last one named. A line has price and limit in whole
    dollars, their digits in pairs up to the first that differ, and whether the price is within the
    limit. Two digits side by side are all that has to be compared: a small model learns that, but
    not to compare numbers at once.

    >>> results = [Result("G01", "Red Mug", 147.5), Result("G02", "Mug", 9.99)]
    >>> list(compare_prices(Click("G02"), results, 140.0))
    ['G01 147 / 140: 1 1, 4 4, 7 0 no', 'G02 009 / 140: 0 1 yes']
    >>> list(compare_prices(Click("G02"), results, math.inf))
    []
    """
    names = [one.asin for one in results]
    if not isinstance(action, Click) or action.label not in names or math.isinf(limit):
        return
    for one in results[: names.index(action.label) + 1]:
        width = max(3, len(str(int(one.price))), len(str(int(limit))))
        price, most = (str(int(amount)).zfill(width) for amount in (one.price, limit))
        pairs = ", ".join(_pairs_of_digits(price, most))
        yield f"{one.asin} {price} / {most}: {pairs} {'yes' if one.price <= limit else 'no'}"


def _pairs_of_digits(price: str, most: str) -> Iterator[str]:
    """Yield the digits at the same places, up to the first that differ."""
    for left, right in zip(price, most, strict=True):
        yield f"{left} {right}"
        if left != right:
            return


def _by_three_tools(action: Search | Click) -> Say:
    if isinstance(action, Search):
        return call("search", query=action.query)
    is_buy = action.label.lower() == Label.BUY.lower()
    return call("buy") if is_buy else call("click", label=action.label)


def _by_one_tool(action: Search | Click) -> Say:
    return call("act", action=write_action(action))


def _in_text(action: Search | Click) -> Say:
    return Say(write_action(action))
