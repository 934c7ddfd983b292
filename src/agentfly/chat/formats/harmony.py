"""Harmony, the channels of gpt-oss: reasoning in `analysis`, calls addressed to `functions.NAME`.

<|channel|>analysis<|message|>The user wants cats.<|end|>
<|start|>assistant<|channel|>commentary to=functions.search <|constrain|>json<|message|>
{"query": "cats"}<|call|>
<|start|>assistant<|channel|>final<|message|>Here they are.<|return|>      (without line breaks)
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentfly.chat.formats.call_format import CUT_OFF, CallFormat, Reading, numbered, unreadable
from agentfly.chat.formats.json_calls import Arguments, arguments_at
from agentfly.chat.formats.json_text import dump
from agentfly.types import ToolCall

START = "<|start|>assistant"
_ENDS = re.compile(r"<\|(?:start|end|call|return)\|>")
_MARK = re.compile(r"<\|(?:start|end|call|return|(?P<message>message))\|>")
_RECIPIENT = re.compile(r"to=([^\s<]++)")
_CHANNEL = re.compile(r"<\|channel\|>\s*+(\w++)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One message: its header, and where its body is; a header without body was cut off."""

    header: str
    start: int
    end: int
    call: ToolCall | None = None

    @property
    def channel(self) -> str:
        match = _CHANNEL.search(self.header)
        return match[1] if match else ""


def _read(text: str) -> Reading:
    parts = list(_parts(text))
    bodies = [(part, text[part.start : part.end].strip()) for part in parts if part.call is None]
    reasoning = [body for part, body in bodies if part.channel == "analysis"]
    content = [body for part, body in bodies if part.channel != "analysis"]
    return Reading(
        content="\n".join(filter(None, content)),
        calls=numbered(part.call for part in parts if part.call),
        reasoning="\n".join(reasoning) if reasoning else None,
        reasoning_spans=tuple((p.start, p.end) for p, _ in bodies if p.channel == "analysis"),
    )


def _parts(text: str) -> Iterator[_Part]:
    pos = 0
    while pos < len(text):
        mark = _MARK.search(text, pos)
        header = text[pos : mark.start() if mark else len(text)]
        if mark and mark["message"]:
            part = _message(text, header, mark.end())
        else:
            part = _bodiless(header, pos)
        yield part
        end = _ENDS.search(text, part.end)
        pos = end.end() if end else len(text)


def _message(text: str, header: str, start: int) -> _Part:
    recipient = _RECIPIENT.search(header)
    end = _ENDS.search(text, start)
    stop = end.start() if end else len(text)
    if recipient is None:
        return _Part(header=header, start=start, end=stop)
    name = recipient[1].removeprefix("functions.")
    if recipient[1] == "python":  # the built-in interpreter is sent bare code
        arguments = Arguments(text=dump({"code": text[start:stop]}), end=stop)
    else:
        arguments = arguments_at(text, start, _ENDS)
    return _Part(header=header, start=start, end=arguments.end, call=arguments.call(name))


def _bodiless(header: str, pos: int) -> _Part:
    """Take text without any mark as content, and a header without its message as cut off."""
    end = pos + len(header)
    recipient = _RECIPIENT.search(header)
    if recipient:
        call = unreadable(CUT_OFF, header, name=recipient[1].removeprefix("functions."))
        return _Part(header=header, start=end, end=end, call=call)
    is_header = "<|channel|>" in header or header.strip() == "assistant"
    return _Part(header="", start=end if is_header else pos, end=end)


def _write(calls: Sequence[ToolCall], content: str = "") -> str:
    if not calls:
        return f"<|channel|>final<|message|>{content}"
    preamble = [f"<|channel|>commentary<|message|>{content}<|end|>"] if content else []
    return START.join([*preamble, f"<|call|>{START}".join(map(_write_call, calls))])


def _write_call(call: ToolCall) -> str:
    header = f"<|channel|>commentary to=functions.{call.name} <|constrain|>json"
    return f"{header}<|message|>{call.arguments}"


HARMONY = CallFormat(name="harmony", read=_read, write=_write, reads_reasoning=True)
