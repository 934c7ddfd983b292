"""Short texts for people, harmless to print: what a model or a tool said may control a terminal."""


def printable(line: str) -> str:
    """Replace characters by which a text could control the terminal or break its encoding."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line.expandtabs())


def shorten(text: str, length: int = 100) -> str:
    r"""Return a text as one line of limited length.

    >>> shorten("first\nsecond \x1b[31m line", 16)
    'first second �[…'
    """
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length and len(text) <= 4 * length else f"{line[: length - 1]}…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1.

    >>> count(1, "step"), count(3, "step")
    ('1 step', '3 steps')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
