r"""Probe turns: how a template writes reasoning, text and calls behind a question.

Call formats (see `format_choice`) and the marks inside a turn are learned from these. A template
writes a turn with the reasoning THOUGHT and the text SAID, and one with reasoning and a tool call:

    Solar     <|think|>THOUGHT<|end|><|begin|>assistant<|content|>SAID
              <|think|>THOUGHT<|end|><|begin|>assistant<|tool_calls|>…
    Cohere    <|START_THINKING|>THOUGHT<|END_THINKING|><|START_RESPONSE|>SAID<|END_RESPONSE|>
    Apriel    (the prompt says: Here are my reasoning steps:) THOUGHT\n[BEGIN FINAL RESPONSE]\nSAID

The text that both have behind the reasoning closes it; the text before it that is not part of the
generation prompt opens it.
"""

from dataclasses import dataclass
from typing import Any

from agentfly.chat.capabilities import PROBE_TOOL, Capabilities, mark
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.formats.derived_layout import FIRST, NUMBER, SAID, SECOND, ProbeTexts
from agentfly.chat.formats.marks import common_prefix, common_suffix, first_mark, last_mark
from agentfly.chat.reasoning import MARKS, ReasoningMarks
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall

QUESTION = Message(role="user", content=mark(0))
THOUGHT = "zqthoughtqz"


class TurnProbe:
    """Renders turns of one template, each behind the same question."""

    def __init__(self, template: ChatTemplate, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._template = template
        # Templates fail over types that they don't have, with any calls: the probe
        # has a parameter of the plainest type alone. Some fail over any tool.
        self._tools: list[dict[str, Any]] = [PROBE_TOOL.to_openai()] if capabilities.tools else []
        self.tool_name = PROBE_TOOL.name

    def render(self, turn: Message | None) -> str:
        """Return a turn, or the generation prompt for None; raise ConfigError if it is refused."""
        messages = [QUESTION] if turn is None else [QUESTION, turn]
        text = self._template.render(
            [self.capabilities.write(message) for message in messages],
            self._tools,
            add_generation_prompt=turn is None,
        )
        return text.rpartition(QUESTION.content)[2]

    def turn(self, *calls: ToolCall, said: str = "", thought: str | None = None) -> str | None:
        """Return a turn as the template writes it; None if it refuses."""
        message = Message(role="assistant", content=said, reasoning=thought, tool_calls=calls)
        try:
            return self.render(message)
        except ConfigError:
            return None

    def prompt(self) -> str:
        """Return the generation prompt."""
        return self.render(None)

    def end(self) -> str:
        """Return what follows the text of a turn without calls; empty if it isn't rendered."""
        said = self.turn(said=SAID)
        return said.rpartition(SAID)[2] if said and SAID in said else ""

    def tool_prompts(self) -> tuple[str, str]:
        """Return whole prompts, with a tool and without."""
        messages = [self.capabilities.write(QUESTION)]
        with_tool, without = (
            self._template.render(messages, tools, add_generation_prompt=True)
            for tools in (self._tools, ())
        )
        return with_tool, without

    def texts(self) -> ProbeTexts | None:
        """Return what a layout is derived from; None if the template refuses a call."""
        one = self.turn(FIRST)
        if one is None:
            return None
        return ProbeTexts(
            one=one,
            two=self.turn(FIRST, SECOND),
            number=self.turn(NUMBER),
            said=self.turn(said=SAID),
            prompt=self.prompt(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMarks:
    """The marks inside the turns of one template."""

    reasoning: tuple[ReasoningMarks, ...] = MARKS
    """The template's own first, then those that are tried on every text."""
    answer: tuple[str, str] = ("", "")
    """Text before and behind the answer to the user; empty for most templates."""


def detect_turn_marks(probe: TurnProbe) -> TurnMarks:
    """Learn the marks of a template's turns."""
    prompt = probe.prompt()
    said = probe.turn(said=SAID)
    before_said = said.partition(SAID)[0] if said and SAID in said else ""
    own = _reasoning_marks(probe, prompt, before_said)
    marks = tuple(dict.fromkeys([*([own] if own else []), *MARKS]))
    opening = _answer_opening(prompt, before_said, marks)
    closing = _answer_closing(probe, said or "") if opening else ""
    return TurnMarks(reasoning=marks, answer=(opening, closing))


def _reasoning_marks(probe: TurnProbe, prompt: str, before_said: str) -> ReasoningMarks | None:
    with_words = _around_thought(probe.turn(said=SAID, thought=THOUGHT), SAID)
    calling = _around_thought(probe.turn(FIRST, thought=THOUGHT), FIRST.name)
    found = with_words or calling
    if found is None:
        return None
    before = found[0]
    closing = _closing(probe, with_words, calling).strip()
    if not closing:
        return None
    opening = before[len(common_prefix(before, prompt)) :]
    if not opening.strip():
        opening = _from_last_mark(before)
        # A mark at the beginning of every turn opens the turn, not the reasoning.
        if not opening or (last_mark(before) in before_said and closing not in before_said):
            opening = prompt[len(common_prefix(prompt, before)) :]
    return ReasoningMarks(opening.strip("\n"), closing) if opening.strip() else None


def _from_last_mark(text: str) -> str:
    mark = last_mark(text)
    return text[text.rfind(mark) :] if mark else ""


def _around_thought(text: str | None, behind: str) -> tuple[str, str] | None:
    """Return the text before the reasoning, and between it and what follows."""
    if text is None or THOUGHT not in text:
        return None
    before, _, rest = text.partition(THOUGHT)
    return (before, rest.partition(behind)[0]) if behind in rest else None


def _closing(
    probe: TurnProbe, with_words: tuple[str, str] | None, calling: tuple[str, str] | None
) -> str:
    """Return what closes the reasoning, without what opens the answer or the call behind it."""
    if with_words and calling:
        shared = common_prefix(with_words[1], calling[1])
        # The beginning of another message is followed by its recipient.
        head = _from_last_mark(probe.prompt())
        return f"{shared.partition(head)[0]}{head}" if head and head in shared else shared
    if with_words:
        return first_mark(with_words[1])
    if calling is None:
        return ""
    without_reasoning = (probe.turn(FIRST) or "").partition(FIRST.name)[0]
    own = calling[1][: len(calling[1]) - len(common_suffix(calling[1], without_reasoning))]
    return own if own.strip() else first_mark(calling[1])


def _answer_opening(prompt: str, before_said: str, marks: tuple[ReasoningMarks, ...]) -> str:
    """Return what a turn writes between its prompt and what is said, reasoning left out."""
    opening = before_said[len(common_prefix(before_said, prompt)) :]
    for pair in marks:
        for text in (pair.opening, pair.closing):
            opening = opening.replace(text, "") if text else opening
    if any(c in opening for c in "<>[]|"):
        return opening.strip("\n ")
    # Functionary 3.2 addresses its answers: the prompt ends in `>>>`, an answer begins with `all`.
    is_addressed = opening.strip() and opening.endswith("\n") and before_said.startswith(prompt)
    return opening.lstrip() if is_addressed else ""


def _answer_closing(probe: TurnProbe, said: str) -> str:
    """Return what a turn writes between what is said and its own end."""
    behind = said.rpartition(SAID)[2]
    calling = probe.turn(FIRST)
    if calling is None or FIRST.name not in calling:
        first = first_mark(behind)
        return first if first != behind.strip() else ""
    return behind[: len(behind) - len(common_suffix(behind, calling))].strip()
