r"""The part of a text that is marked as its answer: `#### 72`, or `\boxed{72}`."""

HASHES = "####"
"""What GSM8K (arXiv:2110.14168) puts between a worked solution and its answer."""
BOX = r"\boxed{"
"""What solutions of competition problems put around their answer."""


def after_hashes(text: str) -> str:
    """Return what follows the last `####`, or the whole text if there is none.

    >>> after_hashes("48/2 = 24, so 48+24 = 72. #### 72")
    ' 72'
    """
    return text.rpartition(HASHES)[2]


def marked_answer(text: str) -> str:
    r"""Return what follows the last `####`, else what the last `\boxed{}` holds, else the text.

    >>> marked_answer(r"So \boxed{\frac{1}{2}}, by step 3.")
    '\\frac{1}{2}'
    """
    if HASHES in text:
        return after_hashes(text)
    _, box, behind = text.rpartition(BOX)
    return behind[: _closing_brace(behind)] if box else text


def _closing_brace(text: str) -> int:
    """Find the brace that closes one opened before the text, or its end."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return place
    return len(text)
