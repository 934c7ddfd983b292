"""The expert: knows the instruction and what the pages show, and nothing else."""

from collections.abc import Generator

from agentfly.environments.player import Scene
from agentfly.environments.webshop.action import Click, Search
from agentfly.environments.webshop.page import Label
from agentfly.environments.webshop.players.reading import Result, read_results, visible_pieces
from agentfly.environments.webshop.players.wish import ParsedInstruction, parse_instruction
from agentfly.environments.webshop.text_match import content_words

MAX_INSPECTED = 3
"""How many products it looks at before it buys the best of them."""

Playing = Generator[Search | Click, str, float]


def play_expert(scene: Scene) -> Generator[Search | Click, str, None]:
    """Search for what is wanted, look at the likeliest products, buy the one with all of it."""
    wanted = parse_instruction(scene.observation)
    found = read_results((yield Search(wanted.query)))
    # What was found is in a good order already. What costs too much comes last.
    likeliest = sorted(found, key=lambda result: result.price > wanted.price)[:MAX_INSPECTED]
    fits: dict[str, float] = {}
    for result in likeliest:
        fits[result.asin] = yield from _look_at(result, wanted)
        if fits[result.asin] == 1:
            yield from _buy(wanted)
        yield _click(Label.PREVIOUS)
    if fits:
        yield _click(max(fits, key=lambda asin: fits[asin]))
        yield from _buy(wanted)


def _look_at(result: Result, wanted: ParsedInstruction) -> Playing:
    """Open a product, and its features if that could settle it; return its fit on its own page."""
    page = yield _click(result.asin)
    fit = _fit(wanted, result, page)
    if fit == 1 or not _offers(wanted, page):
        return fit
    features = yield _click(Label.FEATURES)
    yield _click(Label.PREVIOUS)
    return _fit(wanted, result, f"{page}\n{features}")


def _buy(wanted: ParsedInstruction) -> Generator[Search | Click, str, None]:
    for value in wanted.options:
        yield _click(value)
    yield _click(Label.BUY)


def _click(label: str) -> Click:
    return Click(label.lower())


def _offers(wanted: ParsedInstruction, page: str) -> bool:
    return set(wanted.options) <= set(visible_pieces(page))


def _fit(wanted: ParsedInstruction, result: Result, seen: str) -> float:
    """Return which share of the instruction a product meets by what was seen of it."""
    present = {_singular(word) for word in content_words(seen)}
    fulfilled = [_singular(word) in present for word in wanted.words]
    fulfilled += [result.price <= wanted.price, _offers(wanted, seen)]
    return sum(fulfilled) / len(fulfilled)


def _singular(word: str) -> str:
    return word.removesuffix("s")
