"""Renderings of a chat template by transformers, with which those of `chat` are compared.

A template is given conversations in the form that it takes (arguments as an object or as text,
content as text, parts or nothing), and what it writes for a turn is found by comparing renderings:

    asked      …<|user|>Q<|assistant|>                               the prompt
    last       …<|user|>Q<|assistant|>A<|end|>                       the turn as the last message
    answered   …<|user|>Q<|assistant|>A<|end|><|user|>Q2<|assistant|>   the next prompt

Nothing here is computed by the package that it is the truth for.
"""

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import jinja2
from benchmarks.template_truth import FIRST, NAME, SECOND, TOOL

BOS, EOS = "<|bos|>", "<|eos|>"
NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
"""The time that templates get; one prints it to the second."""

QUESTION = "zqquestion How is the weather?"
SYSTEM = "Be brief, zqsystem."
THOUGHT = "zqthought The user asks."
ANSWER = "zqanswer It rains."
RESULT = "zqresult rain"
NEXT_QUESTION = "zqnext And tomorrow?"

_OPENS_THOUGHT = re.compile(r"<[^<>/]*think[^<>]*>\s*\Z", re.I)

Plain = dict[str, Any]
Arguments = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message, before it is put into a template's form."""

    role: str
    content: str = ""
    thought: str = ""
    calls: tuple[Arguments, ...] = ()
    first_call: int = 0
    """Number of its first call in the conversation; for a result, the number of its call."""

    @property
    def words(self) -> tuple[str, ...]:
        """Texts that identify it in a rendering."""
        cities = (str(call["city"]) for call in self.calls)
        return tuple(filter(None, (self.thought, self.content, *cities)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The form in which a template expects its messages."""

    string_arguments: bool = False
    content: str = "text"
    """Content of a message with calls alone: "text" (empty), "none" or "parts"."""
    call_id: str = "callid00{}"

    def write(self, said: Said) -> Plain:
        """Write a message in this form."""
        plain: Plain = {"role": said.role, "content": self._content(said)}
        if said.thought:
            plain |= dict.fromkeys(("reasoning_content", "reasoning"), said.thought)
            # gpt-oss refuses `thinking` beside content in a turn with calls.
            plain |= {} if said.content and said.calls else {"thinking": said.thought}
        if said.calls:
            numbers = itertools.count(said.first_call)
            plain["tool_calls"] = [self._call(next(numbers), arguments) for arguments in said.calls]
        if said.role == "tool":
            plain |= {"name": NAME, "tool_call_id": self.call_id.format(said.first_call)}
        return plain

    def _content(self, said: Said) -> object:
        if self.content == "none" and said.calls and not said.content:
            return None
        parts = [{"type": "text", "text": said.content}]
        return parts if self.content == "parts" else said.content

    def _call(self, number: int, arguments: Arguments) -> Plain:
        shown = json.dumps(arguments, ensure_ascii=False) if self.string_arguments else arguments
        function = {"name": NAME, "arguments": shown}
        return {"id": self.call_id.format(number), "type": "function", "function": function}


FORMS = tuple(
    Form(string_arguments=string, content=content, call_id=call_id)
    for call_id, content, string in itertools.product(
        ("callid00{}", f"functions.{NAME}:{{}}"), ("text", "none", "parts"), (False, True)
    )
)

USER = Said(role="user", content=QUESTION)
ANSWERING = Said(role="assistant", content=ANSWER)
ONE = Said(role="assistant", calls=(FIRST,))
TWO = Said(role="assistant", calls=(FIRST, SECOND))


_THINKING_TURNS = (
    Said(role="assistant", thought=THOUGHT, content=ANSWER),
    Said(role="assistant", thought=THOUGHT, calls=(FIRST,)),
)


def result(number: int) -> Said:
    """Return the answer of a tool to the call with this number."""
    return Said(role="tool", content=f"{RESULT} {number}", first_call=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A conversation: an opening, then turns of the assistant with their replies."""

    name: str
    opening: tuple[Said, ...]
    steps: tuple[tuple[Said, tuple[Said, ...]], ...]
    tools: bool = True

    @property
    def messages(self) -> list[Said]:
        """All messages, in order."""
        return [*self.opening, *(m for turn, replies in self.steps for m in (turn, *replies))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A turn as the template writes it."""

    asked: str
    """The prompt of the turn."""
    sampled: str
    """Text between the prompt and what only the last message or only a reply has."""
    answered: str
    """The whole conversation up to the next prompt."""
    rewritten: bool
    """Whether the template rewrites the turn, or what was before it, once replies follow."""


class TemplateRenderings:
    """The renderings of one template."""

    def __init__(self, source: str) -> None:
        self.source = source

    def render(
        self, messages: Sequence[Said], *, tools: bool, prompt: bool, form: Form | None = None
    ) -> str:
        """Return a conversation as transformers renders it; raise RefusedError if it does not."""
        plain = [(form or self.form).write(message) for message in messages]
        if tools:
            return self._render(plain, [TOOL], prompt=prompt)
        try:
            return self._render(plain, None, prompt=prompt)
        except RefusedError:
            # Templates made for tools alone loop over them.
            return self._render(plain, [], prompt=prompt)

    def _render(self, plain: list[Plain], tools: list[Plain] | None, *, prompt: bool) -> str:
        from transformers.utils import chat_template_utils as transformers_chat

        # Compiled once per source: the same object is found again by `render_jinja_template`.
        compiled = transformers_chat._compile_jinja_template(self.source)
        compiled.globals["strftime_now"] = NOW.strftime
        try:
            rendering: Any = transformers_chat.render_jinja_template(
                conversations=[plain],
                tools=tools,
                chat_template=self.source,
                add_generation_prompt=prompt,
                bos_token=BOS,
                eos_token=EOS,
            )
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from error
        return str(rendering[0][0])

    @cached_property
    def form(self) -> Form:
        """The form in which the template shows most, rather as JSON; the first of equals."""
        return max(FORMS, key=lambda form: (self._shown_in(form), not self._prints_python(form)))

    def _prints_python(self, form: Form) -> bool:
        """Return whether arguments are written as a Python dict, which no model is taught."""
        try:
            return repr(FIRST) in self.render([USER, ONE], tools=False, prompt=False, form=form)
        except RefusedError:
            return False

    def _shown_in(self, form: Form) -> int:
        conversations = ([USER], [USER, ONE], [USER, ONE, result(0)], [USER, TWO])
        return sum(self._shows(messages, form) for messages in conversations)

    def _shows(self, messages: Sequence[Said], form: Form | None = None) -> bool:
        """Return whether all words, and the name of every call, are in the text in their order."""
        has_calls = any(message.calls for message in messages) and self.tools
        try:
            text = self.render(messages, tools=has_calls, prompt=False, form=form)
            bare = self.render([USER], tools=has_calls, prompt=False, form=form)
        except RefusedError:
            return False
        at = 0
        for word in (word for message in messages for word in message.words):
            at = text.find(word, at)
            if at < 0:
                return False
        calls = sum(len(message.calls) for message in messages)
        return _behind_question(text).count(NAME) >= calls + _behind_question(bare).count(NAME)

    @cached_property
    def loads(self) -> bool:
        """Whether a question and an answer show: templates of embedding models show only one."""
        return self._shows([USER, ANSWERING])

    @cached_property
    def one_call(self) -> bool:
        """Whether a call shows."""
        return self._shows([USER, ONE])

    @cached_property
    def two_calls(self) -> bool:
        """Whether two calls of one turn show."""
        return self._shows([USER, TWO])

    @cached_property
    def tools(self) -> bool:
        """Whether a tool's description shows."""
        return any(map(self._describes_tools, FORMS))

    def _describes_tools(self, form: Form) -> bool:
        try:
            text = self.render([USER], tools=True, prompt=True, form=form)
        except RefusedError:
            return False
        return str(TOOL["function"]["description"]) in text

    @cached_property
    def results(self) -> bool:
        """Whether a tool's answer shows behind a call."""
        return self._shows([USER, ONE, result(0)])

    def turn_text(self, turn: Said) -> str:
        """Return what a model would have sampled for a turn: from the end of its prompt on."""
        tools = self.tools
        prompt = _behind_question(self.render([USER], tools=tools, prompt=True))
        text = _behind_question(self.render([USER, turn], tools=tools, prompt=False))
        return text[_end_of_prompt(prompt, text) :]

    @cached_property
    def thinking_turn(self) -> Said | None:
        """A turn whose reasoning the template shows behind its prompt; None if there is none.

        Behind a prompt that closes the reasoning at once, no model would write any.
        """
        return next((turn for turn in _THINKING_TURNS if self.continues(turn)), None)

    def continues(self, turn: Said) -> bool:
        """Return whether the template writes a turn just behind its prompt, and shows all of it."""
        try:
            prompt = self.render([USER], tools=self.tools, prompt=True)
            text = self.render([USER, turn], tools=self.tools, prompt=False)
        except RefusedError:
            return False
        # Nemotron Nano writes an answer without reasoning into the reasoning that its prompt opens.
        misplaced = not turn.thought and _OPENS_THOUGHT.search(prompt)
        sampled = text[len(prompt) :] if text.startswith(prompt) and not misplaced else ""
        return all(word in sampled for word in turn.words)

    def scripts(self) -> Iterator[Script]:
        """Yield the conversations that this template renders."""
        return filter(self._renders, _scripts(with_calls=self.one_call and self.results))

    def _renders(self, script: Script) -> bool:
        if not self.two_calls and any(len(turn.calls) > 1 for turn, _ in script.steps):
            return False
        try:
            text = self.render(script.messages, tools=self._given(script), prompt=True)
        except RefusedError:
            return False
        said = (m for m in script.messages if m.role != "assistant")
        return all(word in text for message in said for word in message.words)

    def steps(self, script: Script) -> Iterator[Step]:
        """Yield the turns of a conversation, one after the other."""
        history, tools = list(script.opening), self._given(script)
        for turn, replies in script.steps:
            asked = self.render(history, tools=tools, prompt=True)
            last, prompted = (
                self.render([*history, turn], tools=tools, prompt=prompt)
                for prompt in (False, True)
            )
            if last == prompted:
                last = _without_prompt(last, asked)
            history += [turn, *replies]
            answered = self.render(history, tools=tools, prompt=True)
            yield _step(asked, _headed(last, asked, answered), answered)

    def _given(self, script: Script) -> bool:
        """Return whether the template is given tools: not if it only shows them now and then."""
        return script.tools and self.tools


class RefusedError(Exception):
    """The template doesn't render a conversation; the message is its own."""


def _step(asked: str, last: str, answered: str) -> Step:
    end = _end_of_shared(last, answered)
    kept = last.startswith(asked) and answered.startswith(asked)
    sampled, lost = last[len(asked) : end], _without_marks(last[end:])
    return Step(asked=asked, sampled=sampled, answered=answered, rewritten=not kept or bool(lost))


def _headed(last: str, asked: str, answered: str) -> str:
    """Prepend the beginning of a turn's prompt, where that of all prompts is the same.

    Some templates write a system prompt of their own only where a generation prompt is wanted.
    """
    head = asked[: asked.rfind(QUESTION)]
    return head + last[last.rfind(QUESTION) :] if answered.startswith(head) else last


def _without_prompt(last: str, asked: str) -> str:
    """Remove the next turn's opening from a turn that is always followed by it."""
    shared = length_of_shared(last[::-1], asked[::-1])
    opening = last[len(last) - shared :]
    words = re.search(r"<[^<>]*>[^<>]*\w", opening)
    return last[: len(last) - shared + words.start()] if words else last


def _without_marks(text: str) -> str:
    """Return what is neither white space nor a mark that may end a turn."""
    return re.sub(r"<[^<>]*>|\s", "", text)


def _scripts(*, with_calls: bool) -> Iterator[Script]:
    system = Said(role="system", content=SYSTEM)
    again = Said(role="user", content=NEXT_QUESTION)
    yield Script(name="question", opening=(USER,), steps=((ANSWERING, (again,)),), tools=False)
    yield Script(name="system", opening=(system, USER), steps=((ANSWERING, (again,)),), tools=False)
    if not with_calls:
        return
    rounds = ((ONE, (result(0),)), (_call_again(1), (result(1),)))
    yield Script(name="call", opening=(USER,), steps=rounds[:1])
    yield Script(name="two rounds", opening=(system, USER), steps=(*rounds, (ANSWERING, (again,))))
    yield Script(name="two calls", opening=(USER,), steps=((TWO, (result(0), result(1))),))
    thought, thinking = _THINKING_TURNS
    yield Script(name="thought call", opening=(USER,), steps=((thinking, (result(0),)),))
    yield Script(name="thought", opening=(USER,), steps=((thought, (again,)),))
    both = ((thinking, (result(0),)), (thought, (again,)))
    yield Script(name="thoughts", opening=(USER,), steps=both)


def _call_again(number: int) -> Said:
    return Said(role="assistant", calls=(SECOND,), first_call=number)


def _behind_question(text: str) -> str:
    return text.rpartition(QUESTION)[2]


def length_of_shared(one: str, other: str) -> int:
    """Return the length of the common beginning of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _end_of_prompt(prompt: str, text: str) -> int:
    """Return where a prompt ends in a turn's text, which may have other white space."""
    marks, letters = "".join(prompt.split()), [i for i, c in enumerate(text) if not c.isspace()]
    is_there = marks and "".join(text.split()).startswith(marks) and not text.startswith(prompt)
    return letters[len(marks) - 1] + 1 if is_there else _end_of_shared(prompt, text)


def _end_of_shared(one: str, other: str) -> int:
    """Return how far two texts are the same; not into a mark, such as `<|e` of `<|end|>`."""
    shared = length_of_shared(one, other)
    if shared == min(len(one), len(other)):
        return shared
    opened = max(one.rfind("<", 0, shared), one.rfind("[", 0, shared))
    closed = max(one.rfind(">", 0, shared), one.rfind("]", 0, shared))
    return opened if opened > closed and not re.search(r"\s", one[opened:shared]) else shared
