r"""The text expected to follow a turn, from independent renderings of its conversation.

Three renderings are compared: before the turn, with the turn as the last message, and with its
replies:

    before    <|user|>Where?<|assistant|>
    last      <|user|>Where?<|assistant|>There.<|end|>\n
    replied   <|user|>Where?<|assistant|>There.<|end|>\n<|user|>And now?<|assistant|>

The model samples what the second adds to the first, up to the end token that the second and the
third share; what the third has behind that token must follow. So the text of a whole chain can be
assembled without the renderer, also where a template rewrites earlier turns.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agentfly.chat.formats.marks import common_suffix, shared_length
from agentfly.chat.reasoning import MARKS
from agentfly.chat.suffix import without_generation_prompt
from agentfly.errors import ConfigError
from agentfly.types import Message

_EXCERPT = 24
"""Characters shown on either side of a difference."""

_HALF_A_MARK = re.compile(r"[<\[][^<>\[\]\s]*\Z")

Render = Callable[..., str]
"""Called with messages and `prompt=`, whether to add the generation prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedTurn:
    """The text that a model samples as its turn, and the text that follows it."""

    before: str
    """Text before the turn, with the generation prompt."""
    own: str
    """The turn's own text, behind the generation prompt, without its closing."""
    closing: str
    """Text that the model samples to end the turn."""
    end: str
    """The end token in it, or the text that takes its place; empty if there is none."""
    rest: str
    """Text behind the closing, up to the next generation prompt."""
    closing_and_rest: str
    """Text that follows the own text of a turn that was cut."""
    as_prompted: bool
    """Whether the template itself writes the turn, with reasoning, behind its generation prompt.
    Where it doesn't, what a model would write there is a guess."""
    replied: str
    """The whole conversation with the replies, rendered at once."""
    rewritten: str
    """Description of how the replies make the template rewrite the history; empty if they don't."""
    other_end: str
    """Message if the template closes an answered turn differently from the model; else empty."""

    @property
    def sampled(self) -> str:
        """The whole text that the model samples."""
        return self.own + self.closing


def expect_turn(
    render: Render,
    before: Sequence[Message],
    turn: Message,
    replies: Sequence[Message],
    special: re.Pattern[str] | None,
) -> ExpectedTurn:
    """Return what is expected of a turn; raise ConfigError if the template refuses or omits it."""
    prompt = render(before, prompt=True)
    last = render([*before, turn], prompt=False)
    replied = render([*before, turn, *replies], prompt=True)
    asked = _behind(before[-1].content, prompt)
    word = _last_word(turn, last[_behind(before[-1].content, last) :])
    start = _start(prompt[asked:], last[: last.rfind(word)], before[-1].content)
    if last == render([*before, turn], prompt=True):
        shorter = without_generation_prompt(last[start:], [prompt, last, replied], special)
        last = last[:start] + shorter
    last = _without_standing_message(render, before, last, prompt, special)
    stop = last.rfind(word) + len(word)
    reply = _behind(replies[0].content, replied) - len(replies[0].content.strip())
    behind = _behind(word, replied[:reply])
    blank = _own_blank(turn, last[stop:], replied[behind:reply])
    stop, behind = stop + blank, behind + blank
    plain = _plain_end(render, before, special) if turn.tool_calls else ""
    call_close = _call_close(render, before, turn, last[stop:], plain, special)
    ends = _Ends(last[stop:], replied[behind:reply], call_close, plain, special)
    return ExpectedTurn(
        before=prompt,
        own=_opened(prompt[asked:], last[start:stop], turn) + last[start:stop],
        closing=ends.sampled,
        end=ends.token,
        rest=replied[behind + ends.written :],
        closing_and_rest=replied[behind:],
        as_prompted=last.startswith(prompt)
        and not last.startswith(_header(render, before, special), start),
        replied=replied,
        rewritten=_rewritten(prompt, last[:stop], replied, turn),
        other_end=""
        if ends.same
        else f"a turn that ends with {ends.token!r} is later closed differently",
    )


def _start(generation_prompt: str, last: str, question: str) -> int:
    """Return where a turn begins behind the question, or behind what the prompt shares with it."""
    asked = _behind(question, last)
    shared = last[asked : asked + shared_length(generation_prompt, last[asked:])]
    if shared != generation_prompt:
        # Two marks that begin alike, `<think>` and `<tool_call>`, are different marks.
        shared = _HALF_A_MARK.sub("", shared)
    header = generation_prompt[len(shared) :]
    place = last.find(header, asked + len(shared)) if header.strip() else -1
    return asked + len(shared) if place < 0 else place + len(header)


def _header(
    render: Render, before: Sequence[Message], special: re.Pattern[str] | None
) -> tuple[str, ...]:
    """Return the mark that opens an assistant's turn, which some prompts behind results lack."""
    first = next(i for i, message in enumerate(before) if message.role == "user")
    opening = render(before[: first + 1], prompt=True)
    marks = list(special.finditer(opening)) if special else []
    return (opening[marks[-1].start() :],) if marks else ()


def _without_standing_message(
    render: Render,
    before: Sequence[Message],
    last: str,
    prompt: str,
    special: re.Pattern[str] | None,
) -> str:
    """Leave out a message that the template puts behind every conversation, as Command R+ does."""
    unprompted = render(before, prompt=False)
    opener = special.match(prompt, len(unprompted)) if special else None
    if special is None or opener is None or not prompt.startswith(unprompted):
        return last
    always = common_suffix(unprompted, last)
    place = always.find(opener.group())
    standing = always[place:] if place >= 0 else ""
    return last.removesuffix(standing) if special.sub("", standing).strip() else last


def _own_blank(turn: Message, last: str, replied: str) -> int:
    """Return the length of the white space with which an answer ends, where it is kept."""
    content = "" if turn.tool_calls else turn.content
    blank = content[len(content.rstrip()) :]
    return len(blank) if last.startswith(blank) and replied.startswith(blank) else 0


class _Ends:
    """The end of a turn: in its text as the last message, and in its text before a reply."""

    def __init__(
        self,
        last: str,
        replied: str,
        call_close: int,
        plain: str,
        special: re.Pattern[str] | None,
    ) -> None:
        self._plain = plain
        self.sampled, self.token, self.written = self._find(last, replied, call_close, special)
        self.same = self.sampled.split() == replied[: self.written].split()

    def _find(
        self, last: str, replied: str, call_close: int, special: re.Pattern[str] | None
    ) -> tuple[str, str, int]:
        """Return what is sampled, the end token in it, and how much of `replied` says the same."""
        if special is None:
            spelled = last[: shared_length(last, replied)].rstrip()
            return spelled, spelled[call_close:], len(spelled)
        # Some templates trim what was said only once there are replies.
        lead = call_close + _blank(last[call_close:])
        other = call_close + _blank(replied[call_close:])
        shared = shared_length(last[lead:], replied[other:])
        kept = [m for m in special.finditer(last, lead) if m.end() - lead <= shared]
        if kept:
            length = kept[-1].end() - lead
            return last[: lead + length], kept[-1].group(), other + length
        written = self._end_in(replied, other, special)
        sampled = self._end_in(last, lead, special)
        if written is None:
            spelled = last[: shared_length(last, replied)].rstrip()
            return spelled, spelled[call_close:], len(spelled)
        if sampled is None:
            return replied[: written.end()], written.group(), written.end()
        # Where replies remove the usual end, the token in its place opens the reply.
        opens = sampled.group() == self._plain != written.group()
        return last[: sampled.end()], sampled.group(), other if opens else written.end()

    def _end_in(self, text: str, start: int, special: re.Pattern[str]) -> re.Match[str] | None:
        """Find the token that also ends turns without calls; failing that, the first of all."""
        found = list(special.finditer(text, start))
        return next((m for m in found if m.group() == self._plain), found[0] if found else None)


def _blank(text: str) -> int:
    return len(text) - len(text.lstrip())


def _call_close(
    render: Render,
    before: Sequence[Message],
    turn: Message,
    last: str,
    plain: str,
    special: re.Pattern[str] | None,
) -> int:
    """Return how much of the text behind a call's last word closes the call itself."""
    if not turn.tool_calls:
        return 0
    first, second = _twice(turn)
    try:
        text = render([*before, second], prompt=False)
    except ConfigError:
        return 0
    between = text.rpartition(first)[2]
    if "zqsecondqz" not in between:
        return 0
    end = last.find(plain) if plain and plain in last else len(last)
    shared = min(shared_length(between, last), end)
    tokens = special.finditer(last) if special else ()
    return next((m.start() for m in tokens if m.start() < shared < m.end()), shared)


def _plain_end(render: Render, before: Sequence[Message], special: re.Pattern[str] | None) -> str:
    """Return the token that ends turns without calls, replies or not; empty if there is none."""
    answer, reply = Message(role="assistant", content="I see."), Message(role="user", content="So?")
    try:
        expected = expect_turn(render, before, answer, [reply], special)
    except ConfigError:
        return ""
    return "" if expected.other_end else expected.end


def _twice(turn: Message) -> tuple[str, Message]:
    """Return a turn with one more call, and the word of the last call before that."""
    call = turn.tool_calls[-1]
    word = _word_of(call.arguments)
    more = replace(
        call, id=call.id[:-1] + "9", arguments=call.arguments.replace(word, "zqsecondqz")
    )
    return word, replace(turn, tool_calls=(*turn.tool_calls, more))


def _word_of(arguments: str) -> str:
    return str(json.loads(arguments)["query"])


def _last_word(turn: Message, shown: str) -> str:
    words = [_word_of(call.arguments) for call in reversed(turn.tool_calls)] or [
        turn.content.strip()
    ]
    for word in words:
        if word in shown:
            return word
    raise ConfigError(f"the template doesn't show what an assistant says: {words[-1]!r}")


def _behind(word: str, text: str) -> int:
    place = text.rfind(word.strip())
    if place < 0:
        raise ConfigError(f"the template leaves out {word!r}")
    return place + len(word.strip())


def _opened(prompt: str, own: str, turn: Message) -> str:
    """Return what a model writes first where only the prompt, not the history, opens reasoning."""
    for mark in MARKS:
        opening = mark.opening.strip()
        opens = opening in prompt and mark.closing not in prompt.rpartition(opening)[2]
        if opens and mark.closing not in own:
            return f"{turn.reasoning or ''}\n{mark.closing}\n\n"
    return ""


def _rewritten(prompt: str, last: str, replied: str, turn: Message) -> str:
    if not last.startswith(prompt):
        return f"a prompt differs from the same text in the history: {difference(prompt, last)}"
    if replied.startswith(last):
        return ""
    thought = turn.reasoning
    if thought and thought in last and thought not in replied:
        return "the reasoning of earlier turns is left out"
    return f"an earlier turn changes once replies follow: {difference(last, replied)}"


def difference(one: str, other: str) -> str:
    """Show both texts around the place where they begin to differ.

    >>> difference("one line, here", "one line here")
    "'one line, here' vs. 'one line here'"
    """
    place = shared_length(one, other)
    shown = (text[max(0, place - _EXCERPT) : place + _EXCERPT] for text in (one, other))
    return " vs. ".join(map(repr, shown))
