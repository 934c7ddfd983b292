"""Conversations rendered by transformers itself, with which our renderer is compared.

Nothing here depends on the renderer or its capabilities. The forms that templates accept
(arguments as an object or as JSON text, content as text or as parts, ids of some shape) are tried
in turn, and the first that renders every word is used.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from typing import Any

from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.jinja_sandbox import RenderTimeout
from agentfly.errors import ConfigError, boundary
from agentfly.runtime.extra import import_extra
from agentfly.types import Message, ToolCall, ToolSpec

TOOL = ToolSpec(
    name="look_up",
    description="Look something up.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look up."}},
        "required": ["query"],
    },
)

_QUESTION = Message(role="user", content="Where is the lighthouse?")
_SYSTEM = Message(role="system", content="Speak like a sailor.")
_ANSWER = Message(role="assistant", content="I shall look.")
_ARGUMENT = "lighthouses nearby"
_RESULT = "Two miles to the north."
_CALL_IDS = ("callid00{}", f"functions.{TOOL.name}:{{}}")
"""Mistral's templates require nine letters and digits. Kimi's write nothing of a call but its id,
in which its models put the name."""
_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form in which messages are written for one template."""

    parts: bool = False
    """Content is a list of parts."""
    text_arguments: bool = False
    """Arguments are JSON text."""
    null_content: bool = False
    """A turn that calls without saying anything has None for its content."""
    call_id: str = _CALL_IDS[0]

    def write(self, message: Message) -> dict[str, Any]:
        """Write a message as a dict of the chat completions API."""
        plain: dict[str, Any] = {"role": message.role, "content": self._content(message)}
        if message.reasoning is not None:
            names = ["reasoning_content", "reasoning"]
            # gpt-oss refuses `thinking` together with content where there are calls.
            names += [] if message.content and message.tool_calls else ["thinking"]
            plain |= dict.fromkeys(names, message.reasoning)
        if message.tool_calls:
            plain["tool_calls"] = [self._call(call) for call in message.tool_calls]
        if message.role == "tool":
            plain |= {"tool_call_id": message.tool_call_id, "name": message.name}
        return plain

    def _content(self, message: Message) -> object:
        if self.null_content and message.tool_calls and not message.content:
            return None
        text = message.content
        return [{"type": "text", "text": text}] if self.parts else text

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = call.arguments if self.text_arguments else json.loads(call.arguments)
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceCapabilities:
    """The kinds of messages that a template renders; its fields are those of `Capabilities`."""

    system: bool
    tools: bool
    calls: bool
    tool_messages: bool
    results_alone: bool
    """Tool messages are rendered even if no call precedes them."""
    refusal: str = ""
    """The template's error message if it refuses a call."""


class ReferenceRenderer:
    """Renders with transformers.

    Args:
        template: Its source, variables and date are used, not its rendering.
    """

    def __init__(self, template: ChatTemplate) -> None:
        module = import_extra(
            "transformers.utils.chat_template_utils",
            extra="local",
            purpose="rendering independently of AgentFly",
        )
        self._render: Callable[..., tuple[list[str], list[Any]]] = module.render_jinja_template
        self._template = template
        # transformers would print today's date; the renderer keeps that of its making.
        self._source = _TODAY.sub(
            lambda found: json.dumps(template.date.strftime(found.group(2))), template.source
        )
        self.form = self._form_of_content()
        self.capabilities = self._learn()

    @staticmethod
    def missing() -> str | None:
        """Return why there is no independent rendering; None if there is."""
        return None if find_spec("transformers") else "transformers is not installed"

    def text(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, prompt: bool = True
    ) -> str:
        """Render a conversation; raise ConfigError with the template's message if it refuses."""
        return self._text(self.form, messages, tools, prompt=prompt)

    def calls(self, *arguments: dict[str, Any], first: int = 0) -> tuple[ToolCall, ...]:
        """Return calls with ids that this template takes, numbered from `first`."""
        return _calls(self.form, *arguments, first=first)

    def _text(
        self, form: Form, messages: Sequence[Message], tools: Sequence[ToolSpec], *, prompt: bool
    ) -> str:
        plain = [form.write(message) for message in messages]
        specs = [tool.to_openai() for tool in tools]
        self._require_quick(plain, specs, prompt=prompt)
        try:
            return self._rendered(plain, specs or None, prompt=prompt)
        except ConfigError:
            if specs:
                raise
            return self._rendered(plain, [], prompt=prompt)

    def _require_quick(self, plain: list[Any], specs: list[Any], *, prompt: bool) -> None:
        """Refuse what runs into the deadline of our own Jinja: transformers has none."""
        try:
            self._template.render(plain, specs, add_generation_prompt=prompt)
        except ConfigError as error:
            if isinstance(error.__cause__, RenderTimeout):
                raise

    def _rendered(self, plain: list[Any], specs: list[Any] | None, *, prompt: bool) -> str:
        with boundary(ConfigError, "transformers, rendering this conversation,"):
            texts, _ = self._render(
                conversations=[plain],
                tools=specs,
                chat_template=self._source,
                add_generation_prompt=prompt,
                **self._template.variables,
            )
        return texts[0]

    def _form_of_content(self) -> Form:
        for form in (Form(), Form(parts=True)):
            if self._shows(form, [_QUESTION], [_QUESTION.content]):
                return form
        self._text(Form(), [_QUESTION], (), prompt=True)
        raise ConfigError("the chat template doesn't show a user's message")

    def _learn(self) -> ReferenceCapabilities:
        tools = self._shows(self.form, [_QUESTION], [TOOL.name], [TOOL])
        shown = [TOOL] if tools else []
        calling = [form for form in self._forms() if self._shows_call(form, shown)]
        if any(self._shows_call(form, shown, as_python=True) for form in calling):
            calling.sort(key=lambda form: not form.text_arguments)
        answered = [form for form in calling or self._forms() if self._shows_result(form, shown)]
        self.form = next(iter([*(answered if calling else []), *calling]), self.form)
        alone = Message(role="tool", content=_RESULT, name=TOOL.name, tool_call_id="callid000")
        return ReferenceCapabilities(
            system=self._shows(self.form, [_SYSTEM, _QUESTION], [_SYSTEM.content]),
            tools=tools,
            calls=bool(calling),
            tool_messages=bool(answered),
            results_alone=self._shows(self.form, [_QUESTION, _ANSWER, alone], [_RESULT]),
            refusal="" if calling else self._refusal(shown),
        )

    def _refusal(self, tools: Sequence[ToolSpec]) -> str:
        try:
            self._text(self.form, [_QUESTION, _exchange(self.form)[0]], tools, prompt=False)
        except ConfigError as error:
            return str(error)
        return ""

    def _forms(self) -> Iterator[Form]:
        for call_id, text, null in product(_CALL_IDS, (False, True), (False, True)):
            yield replace(self.form, call_id=call_id, text_arguments=text, null_content=null)

    def _shows_call(
        self, form: Form, tools: Sequence[ToolSpec], *, as_python: bool = False
    ) -> bool:
        """Return whether a call is rendered; if asked, with its arguments as a Python dict."""
        asked, _ = _exchange(form)
        try:
            text = self._text(form, [_QUESTION, asked], tools, prompt=False)
        except ConfigError:
            return False
        turn = text.rpartition(_QUESTION.content)[2]
        shown = repr({"query": _ARGUMENT}) if as_python else _ARGUMENT
        return TOOL.name in turn and shown in turn

    def _shows_result(self, form: Form, tools: Sequence[ToolSpec]) -> bool:
        return self._shows(form, [_QUESTION, *_exchange(form)], [_RESULT], tools)

    def _shows(
        self,
        form: Form,
        messages: Sequence[Message],
        words: Sequence[str],
        tools: Sequence[ToolSpec] = (),
    ) -> bool:
        try:
            text = self._text(form, messages, tools, prompt=True)
        except ConfigError:
            return False
        return all(word in text for word in words)


def _exchange(form: Form) -> tuple[Message, Message]:
    (call,) = _calls(form, {"query": _ARGUMENT})
    asked = Message(role="assistant", tool_calls=(call,))
    return asked, Message(role="tool", content=_RESULT, name=call.name, tool_call_id=call.id)


def _calls(form: Form, *arguments: dict[str, Any], first: int = 0) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall(
            id=form.call_id.format(index),
            name=TOOL.name,
            arguments=json.dumps(given, ensure_ascii=False),
        )
        for index, given in enumerate(arguments, first)
    )
