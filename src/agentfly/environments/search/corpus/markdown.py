"""Markdown without its marks; code stays as it is written."""

import re

_CODE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n]*\n(?P<block>.*?)(?:^[ \t]*(?P=fence)[`~]*[ \t]*$|\Z)"
    r"|(?<!`)(?P<ticks>`{1,2})(?!`)(?P<span>.+?)(?<!`)(?P=ticks)(?!`)",
    re.MULTILINE | re.DOTALL,
)
_KEPT = re.compile("\ue000(\\d+)\ue001")
"""Stands for a piece of code meanwhile: characters that no text has."""
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_LINE_MARKS = re.compile(r"^ {0,3}(?:#{1,6}|>|[-*+]|\d+\.)[ \t]+", re.MULTILINE)
_EMPHASIS = re.compile(
    r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*]*[^*\s])\1(?![\w*])"
    # `__init__` is a name and no bold word.
    r"|(?<!\w)(?!__\w+__)(_{1,3})(?=[^\s_])([^_]*[^_\s])\3(?!\w)"
)
NESTED = 3
"""Emphasis inside emphasis that is taken out; what is deeper stays."""


def plain_markdown(source: str) -> str:
    """Take the marks out of Markdown, where they are marks.

    >>> plain_markdown("## A [link](x.md) and *more*")
    'A link and more'
    >>> plain_markdown("**Call** `f(*a)`, or read_file(a_b) for 2*3*4")
    'Call f(*a), or read_file(a_b) for 2*3*4'
    """
    codes: list[str] = []

    def keep(found: re.Match[str]) -> str:
        codes.append(found["block"] if found["fence"] else found["span"])
        return f"\ue000{len(codes) - 1}\ue001"

    text = _CODE.sub(keep, source.replace("\ue000", ""))
    text = _LINE_MARKS.sub("", _LINK.sub(r"\1", text))
    for _ in range(NESTED):
        text = _EMPHASIS.sub(r"\2\4", text)
    return _KEPT.sub(lambda kept: codes[int(kept[1])], text).strip()
