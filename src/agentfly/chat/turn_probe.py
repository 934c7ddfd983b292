"""Turns as a template writes them behind a question: what formats and marks are learned from."""

from typing import Any

from agentfly.chat.capabilities import PROBE_TOOL, Capabilities, mark
from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.formats.derived_layout import FIRST, NUMBER, SAID, SECOND, ProbeTexts
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall

QUESTION = Message(role="user", content=mark(0))
THOUGHT = "zqthoughtqz"


class TurnProbe:
    """Renders turns of one template, each behind the same question."""

    def __init__(self, template: ChatTemplate, capabilities: Capabilities) -> None:
        self.capabilities = capabilities
        self._template = template
        # Templates fail over types that they don't know, whatever the calls look like: the probe
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
        """Return what follows the words of a turn without calls; empty if they don't show."""
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
