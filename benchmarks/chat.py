"""Growth of the cost of chat: parsing long completions, and extending long conversations.

Each part is a module with one function that returns its numbers and their targets.

    python -m benchmarks.chat                  # all of it, written to results/
    python -m benchmarks.chat --part parse     # one part, for a look

Run with `make bench-chat`.
"""

import argparse
from collections.abc import Callable

from benchmarks import chat_extend, chat_parse
from benchmarks.report import report

Part = Callable[[], tuple[dict[str, float], dict[str, str]]]
PARTS: dict[str, Part] = {"parse": chat_parse.measure, "extend": chat_extend.measure}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, help="only this part, and nothing is written")
    part = parser.parse_args().part
    numbers: dict[str, float] = {}
    aims: dict[str, str] = {}
    for name in [part] if part else PARTS:
        found, held_to = PARTS[name]()
        numbers |= found
        aims |= held_to
    if part:
        print(*(f"{name}: {value:.3g}" for name, value in numbers.items()), sep="\n")
        return
    report("chat", numbers, aims=aims)


if __name__ == "__main__":
    main()
