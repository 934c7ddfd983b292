r"""Tracking which characters of a rendering come from outside, by taint analysis.

Only the template may make special tokens. But a template mixes its own text with text from outside
(of users, tools, models and MCP servers), and may trim, quote or cut it. To track this text, the
conversation is rendered a second time with stand-ins: in text from outside, every character with
which a special token begins or ends is replaced by a rare letter.

    said        {"role": "user", "content": "<|im_end|>"}
    rendered    <|im_start|>user\n<|im_end|><|im_end|>
    tracked     <|im_start|>user\nS|im_end|T<|im_end|>        S and T stand for < and >

A stand-in never is, or becomes, part of a special token, so the special tokens of the tracked
rendering are the template's own. With the stand-ins replaced back, it should equal the plain
rendering; then the owner of each character is known. Where it differs (because the template looks
into the text, for example for `</think>`), the plain rendering is used if it has the same special
tokens, and otherwise the tracked one, on which the text has no influence.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from agentfly.chat.safe_encode import Piece
from agentfly.chat.tokenizer_adapters import special_pattern
from agentfly.errors import ConfigError
from agentfly.types import Message, ToolCall, ToolSpec

_LETTERS = range(0x20000, 0x2A6D0)
"""Rare letters used as stand-ins: no white space, no case, printed as they are."""

_RARE = re.compile(f"[{chr(_LETTERS[0])}-{chr(_LETTERS[-1])}]")

_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


class Swap:
    """Replaces some characters by stand-ins, in all text from outside."""

    def __init__(self, letters: Mapping[str, str], trusted: Iterable[str] = ()) -> None:
        self._there = str.maketrans(dict(letters))
        self._back = str.maketrans({letter: char for char, letter in letters.items()})
        self._trusted = frozenset(trusted)
        self.stand_ins = re.compile(f"([{''.join(letters.values())}]+)") if letters else None
        """Stretches of letters that replace others; None if it replaces nothing."""

    def text(self, text: str) -> str:
        """Swap the characters of a text."""
        return text.translate(self._there)

    def back(self, text: str) -> str:
        """Undo it."""
        return text.translate(self._back)

    def message(self, message: Message) -> Message:
        """Swap all of a message that a role without trust wrote."""
        if message.role in self._trusted:
            return message
        return replace(
            message,
            content=self.text(message.content),
            reasoning=None if message.reasoning is None else self.text(message.reasoning),
            name=None if message.name is None else self.text(message.name),
            tool_call_id=None if message.tool_call_id is None else self.text(message.tool_call_id),
            tool_calls=tuple(map(self.call, message.tool_calls)),
            images=tuple(
                replace(image, media_type=self.text(image.media_type)) for image in message.images
            ),
        )

    def call(self, call: ToolCall) -> ToolCall:
        """Swap a call; its arguments stay the JSON that they are."""
        return replace(
            call,
            id=self.text(call.id),
            name=self.text(call.name),
            arguments=self._arguments(call.arguments),
        )

    def tool(self, tool: ToolSpec) -> ToolSpec:
        """Swap what a tool says of itself, its schema included."""
        return replace(
            tool,
            name=self.text(tool.name),
            description=self.text(tool.description),
            parameters=self._value(tool.parameters),
        )

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self._value(key): self._value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        return value

    def _arguments(self, arguments: str) -> str:
        try:
            json.loads(arguments)
        except (ValueError, RecursionError):
            return self.text(arguments)
        return _JSON_STRING.sub(self._json_string, arguments)

    def _json_string(self, match: re.Match[str]) -> str:
        """Swap within one string; `\u003c` is a `<` that a template would be shown."""
        text = json.loads(match.group())
        swapped = self.text(text)
        return match.group() if swapped == text else json.dumps(swapped, ensure_ascii=False)


class _SwapDetector(Swap):
    """Replaces nothing, and records whether there is anything to replace."""

    def __init__(self, edges: re.Pattern[str] | None, trusted: frozenset[str]) -> None:
        self._trusted = trusted
        self._edges = edges
        self.found = False

    def message(self, message: Message) -> Message:
        parts = (message.content, message.reasoning, message.name, message.tool_call_id)
        if message.tool_calls or message.images:
            return super().message(message)
        if message.role not in self._trusted:
            self.text("\n".join(filter(None, parts)))
        return message

    def text(self, text: str) -> str:
        self.found = self.found or bool(self._edges and self._edges.search(text))
        return text


class Taint:
    """Finds the characters of a rendering that come from outside.

    Args:
        special: The tokens that only the template may make.
        own_text: What the template is made of: its source, and the values of its variables.
        trusted: Roles whose messages count as the template's own text.
    """

    def __init__(self, special: Iterable[str], own_text: str, trusted: Iterable[str] = ()) -> None:
        tokens = [token for token in special if len(token.strip()) > 1]
        self._pattern = special_pattern(tokens)
        self._edges = {end for token in tokens for end in (token.strip()[0], token.strip()[-1])}
        self._any_edge = special_pattern(sorted(self._edges))
        self._own_text = own_text
        self._spelled_out = {token for token in tokens if token in own_text}
        self._trusted = frozenset(trusted)

    def pieces(self, render: Callable[[Swap], str]) -> list[Piece]:
        """Render, and split the text by who wrote it.

        `render` must pass everything that comes from outside through the swap that it is given.
        """
        detector = _SwapDetector(self._any_edge, self._trusted)
        plain = render(detector)
        if not detector.found:
            self._require_own(plain, render)
            return [Piece(plain, trusted=True)]
        swap = self._swap(self._edges, plain)
        tracked = render(swap)
        self._require_own(tracked, render)
        if swap.back(tracked) != plain and self.tokens(plain) == self.tokens(tracked):
            return [Piece(plain, trusted=True)]
        return pieces_behind(swap, [Piece(tracked, trusted=True)])

    def inert(self, avoid: str) -> Swap:
        """Return a swap under which no text is, or becomes, a special token.

        Its stand-ins are letters that `avoid` doesn't contain.
        """
        return self._swap(self._edges, avoid)

    def tokens(self, text: str) -> list[str]:
        """Return the special tokens that a text spells."""
        return self._pattern.findall(text) if self._pattern else []

    def _swap(self, characters: Iterable[str], text: str) -> Swap:
        """Choose stand-ins that neither the template nor the text contains."""
        taken = {*self._own_text, *text}
        wanted = sorted(characters)
        near = _LETTERS[: len(taken) + len(wanted)]
        free = [letter for letter in map(chr, near) if letter not in taken]
        if len(free) < len(wanted):
            raise ConfigError(
                "a text of this conversation uses up all letters that could distinguish it from "
                "the template's own: leave it out"
            )
        return Swap(dict(zip(wanted, free, strict=False)), self._trusted)

    def _require_own(self, text: str, render: Callable[[Swap], str]) -> None:
        """Refuse a token that the template begins and ends, but whose middle came from outside.

        Tokens that the template spells out are its own, and so are those that it still makes when
        all letters of the token are swapped in what comes from outside.
        """
        not_spelled_out = [t for t in self.tokens(text) if t not in self._spelled_out]
        if not not_spelled_out:
            return
        made = Counter(not_spelled_out)
        swap = self._swap({char for token in made for char in token}, text)
        forged = made - Counter(self.tokens(render(swap)))
        if forged:
            raise ConfigError(
                f"the chat template makes the special token {next(iter(forged))!r} out of what a "
                "message or a tool says: take that text out"
            )


def rare_letters(text: str) -> frozenset[str]:
    """Return the letters of a text that could be confused with stand-ins."""
    return frozenset() if text.isascii() else frozenset(_RARE.findall(text))


def pieces_behind(swap: Swap, pieces: Iterable[Piece]) -> list[Piece]:
    """Undo a swap; each character that had a stand-in becomes an untrusted piece."""
    if swap.stand_ins is None:
        return list(pieces)
    return [
        Piece(swap.back(part) if index % 2 else part, trusted=piece.trusted and index % 2 == 0)
        for piece in pieces
        for index, part in enumerate(swap.stand_ins.split(piece.text))
        if part
    ]
