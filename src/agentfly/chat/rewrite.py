"""Templates that change what was said before, once more is said.

Many drop the reasoning of earlier turns as soon as a user speaks again. The stream of sampled
tokens is then no longer what the template would render. Two renderings tell: of the conversation up
to the turn, and of the same conversation with its replies.

A long conversation is not rendered whole for that. Templates go by what kind of turn they see
(with reasoning, with calls, answered by a user) and by where the last question stands, so one that
is cut down to the last exchange of each kind is worded otherwise when the whole is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentfly.chat.align import shared_length
from agentfly.chat.conversation_writer import ConversationWriter
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDetector:
    """Tells whether replies make a template word the history otherwise."""

    writer: ConversationWriter
    pattern: re.Pattern[str] | None
    """What matches a special token."""

    def rewritten(
        self,
        history: Sequence[Message],
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
        sampled: str | None = None,
    ) -> bool:
        """Compare the history before and after the replies.

        `history` ends with the turn that is answered, `sampled` is its text as sampled. A turn that
        is merely written otherwise than it was sampled (other spaces in its JSON) is not rewritten:
        the template must word it one way as the last message, and another before the replies.
        """
        history = representative(history)
        before = self.writer.text(history[:-1], tools)
        after = self.writer.text([*history, *replies], tools)
        if not after.startswith(before):
            return True
        said = after[len(before) :]
        if sampled is not None and said.startswith(sampled):
            return False
        try:
            last = self.writer.text(history, tools, add_generation_prompt=False)
        except ConfigError:
            return False
        return last.startswith(before) and self._lost(last[len(before) :], said)

    def _lost(self, last: str, said: str) -> bool:
        """Tell whether anything but what closes a turn is missing from `said`."""
        shared = shared_length(last, said)
        pattern = self.pattern
        if pattern is None:
            return bool(last[shared:].strip())
        straddling = (m.start() for m in pattern.finditer(last) if m.start() < shared < m.end())
        return bool(pattern.sub("", last[next(straddling, shared) :]).strip())


def representative(history: Sequence[Message]) -> list[Message]:
    """Cut a conversation down to its opening, the last exchange of each kind, and its turn.

    An exchange is an assistant's message with the replies to it. Earlier ones of the same kind are
    worded as the last one is, or were worded so when a later question came.
    """
    starts = [i for i, message in enumerate(history) if message.role == "assistant"]
    last = {
        _kind(history[start], history[end - 1]): (start, end) for start, end in pairwise(starts)
    }
    spoken = (message for start, end in sorted(last.values()) for message in history[start:end])
    return [*history[: starts[0]], *spoken, *history[starts[-1] :]]


def _kind(turn: Message, reply: Message) -> object:
    """Return what templates look at, as little as will do: it is called for every turn."""
    return turn.reasoning is None, not turn.content, len(turn.tool_calls) > 1, reply.role
