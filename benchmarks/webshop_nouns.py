"""How often the kind of a product is judged otherwise than by a lexicon's nouns.

The published reward finds the nouns of two titles with a tagger; the shop takes all content words.
This compares the shop's `r_type` with one whose nouns are the words that WordNet knows mostly as
nouns, or does not know, on the first results for every held-out goal:

    python -m benchmarks.webshop_nouns FOLDER_WITH_THE_OFFICIAL_FILES /usr/share/wordnet
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from benchmarks.report import report

from agentfly.environments.webshop import purchase
from agentfly.environments.webshop.options import WebShopOptions
from agentfly.environments.webshop.shop import open_shop
from agentfly.environments.webshop.text_match import content_words

RESULTS_PER_GOAL = 10


def main() -> None:
    """Record the share of purchases whose factor differs, and by how much."""
    data, wordnet = map(Path, sys.argv[1:])
    factors = list(_factors(data, _Lexicon(wordnet)))
    differences = [abs(words - nouns) for words, nouns in factors]
    numbers = {
        "purchases": len(factors),
        "differs": fmean(difference > 0 for difference in differences),
        "higher": fmean(words > nouns for words, nouns in factors),
        "mean_difference": fmean(differences),
    }
    report("webshop_nouns", numbers, aims={})


class _Lexicon:
    """Words by the part of speech in which WordNet's texts use them most."""

    def __init__(self, folder: Path) -> None:
        self._counts = {
            part: dict(_tagged(folder / f"index.{part}")) for part in ("noun", "adj", "verb", "adv")
        }

    def is_noun(self, word: str) -> bool:
        """Return whether a word is mostly a noun, or unknown, as names are."""
        counts = {part: words[word] for part, words in self._counts.items() if word in words}
        return not counts or counts.get("noun", -1) == max(counts.values())


def _tagged(file: Path) -> Iterator[tuple[str, int]]:
    """Yield each word with the number of its senses that occur in WordNet's tagged texts."""
    for line in file.read_text().splitlines():
        if not line.startswith(" "):
            word, _, _, pointers, *rest = line.split()
            yield word, int(rest[int(pointers) + 1])


def _factors(data: Path, lexicon: _Lexicon) -> Iterator[tuple[float, float]]:
    shop = open_shop(WebShopOptions(data=data))
    for goal in shop.goals.test:
        wanted = shop.product(goal.asin)
        for bought in shop.search(goal.instruction)[:RESULTS_PER_GOAL]:
            by_words = purchase.compare_titles(bought.title, wanted.title)
            by_nouns = _shared(bought.title, wanted.title, lexicon)
            yield (
                purchase.type_factor(bought, wanted, by_words),
                purchase.type_factor(bought, wanted, by_nouns),
            )


def _shared(bought: str, wanted: str, lexicon: _Lexicon) -> float:
    """Return the share of the wanted title's nouns that the other title has."""
    mine, yours = (
        [word for word in content_words(title) if lexicon.is_noun(word)]
        for title in (bought, wanted)
    )
    return len(set(mine) & set(yours)) / len(yours) if yours else purchase.TITLE_WITHOUT_NOUNS


if __name__ == "__main__":
    main()
