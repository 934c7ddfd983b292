r"""Where a template says that a turn ends, found by comparing renderings of a probe.

What follows an assistant's words when they are the last message, and when replies follow them:

    template  last message               before a reply                   the turn ends with
    ChatML    `<|im_end|>\n`             `<|im_end|>\n<|im_start|>user…`  `<|im_end|>`
    Phi-3     `<|end|>\n<|endoftext|>`   `<|end|>\n<|user|>…`             `<|end|>`
    gpt-oss   `<|return|>`               `<|end|><|start|>user…`          either
    GLM       nothing                    `<|observation|>…`               what opens the reply
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentfly.chat.align import shared_length
from agentfly.chat.formats.marks import common_suffix


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """What closes a turn before a certain kind of reply."""

    closing: str = ""
    """Head of what follows the turn, up to and with the special token that closes it."""
    tokens: tuple[str, ...] = ()
    """Special tokens that a model samples to end such a turn."""
    opens_reply: bool = False
    """The closing token is the first of the reply: it stays even if another ended the turn."""
    spelled: str = ""
    """What closes the turn where the tokenizer knows no special token for it: plain text."""
    last: str = ""
    """All that follows the turn when it is the last message."""


def find_turn_end(last: str, head: str, special: re.Pattern[str] | None) -> TurnEnd:
    r"""Compare what follows a turn as the last message with what follows it before a reply.

    >>> find_turn_end("<|e|>\n", "<|e|>\n<|user|>\n", re.compile(r"<\|e\|>|<\|user\|>")).closing
    '<|e|>'
    """
    shared = last[: shared_length(last, head)]
    if special is None:
        return TurnEnd(spelled=shared, last=last)
    tokens = list(special.finditer(last))
    kept = [token for token in tokens if token.end() <= len(shared)]
    if kept:
        end = kept[-1]
        return TurnEnd(closing=head[: end.end()], tokens=(end.group(),), last=last)
    opening = special.match(head, len(head) - len(head.lstrip()))
    if opening is None:
        return TurnEnd(spelled=shared, last=last)
    ends = tokens[-1].group() if tokens else opening.group()
    return TurnEnd(closing=head[: opening.end()], tokens=(ends,), opens_reply=not tokens, last=last)


def without_generation_prompt(
    last: str, renderings: Sequence[str], special: re.Pattern[str] | None
) -> str:
    """Take the next turn's opening off what follows a turn, where a template always writes it.

    `renderings` are conversations of different lengths, all with that opening at their end. In each
    of them one message more is opened than closed, which tells a token that opens messages from the
    one that closes them.
    """
    tokens = list(special.finditer(last)) if special else []
    for closing, opening in pairwise(tokens):
        surplus = {text.count(opening.group()) - text.count(closing.group()) for text in renderings}
        if surplus == {1}:
            return last[: opening.start()]
    return last


def length_of_call_close(
    last: str, between: str, closing: str, special: re.Pattern[str] | None
) -> int:
    r"""Return how much of the text behind a call's arguments still belongs to the call.

    `last` is that text in a turn that is the last message, `between` what lies between two calls,
    `closing` what closes a turn without calls. In `"}}\n</tool_call><|im_end|>\n` the turn's end is
    the part that also closes a turn without calls; failing that, the last special token, unless it
    closes every call (as `<tool_call|>` does in Gemma).
    """
    shared = common_suffix(last, closing)
    if shared.strip():
        return len(last) - len(shared)
    trailing = list(special.finditer(last)) if special else []
    if not trailing or last[trailing[-1].end() :].strip() or trailing[-1].group() in between:
        return len(last)
    return trailing[-1].start()
