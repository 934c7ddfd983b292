"""Templates that change what was said before, once more is said.

Many drop the reasoning of earlier turns as soon as a user speaks again. The stream of sampled
tokens is then no longer what the template would render. Two renderings tell: of the conversation up
to the turn, and of the same conversation with its replies.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentfly.chat.align import shared_length
from agentfly.chat.conversation import ConversationWriter
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteWatch:
    """Tells whether replies make a template word the history otherwise."""

    writer: ConversationWriter

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
        pattern = self.writer.encoder.pattern
        if pattern is None:
            return bool(last[shared:].strip())
        straddling = (m.start() for m in pattern.finditer(last) if m.start() < shared < m.end())
        return bool(pattern.sub("", last[next(straddling, shared) :]).strip())
