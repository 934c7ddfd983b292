"""What a template does to a chain's tokens: the proof that `agentfly check` prints."""

from collections.abc import Iterator
from dataclasses import dataclass

from agentfly.chat.reasoning import Opened
from agentfly.chat.rehearsal import Rehearsal, rehearse, scripts
from agentfly.chat.render import TemplateRenderer
from agentfly.types import Message

_FALLBACKS = (
    ("system", "system messages go in front of the first user's message"),
    ("tools", "tools are described in the system prompt"),
    ("calls", "tool calls of earlier turns are written into the content"),
    ("tool_messages", "tool results are given as a user's message"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """What was found out about a template and its tokenizer.

    >>> print(check_template(renderer))                                      # doctest: +SKIP
    tokens are the record: yes
    call format: hermes
    a turn ends with: <|im_end|> (151645)
    """

    call_format: str
    end_tokens: tuple[tuple[str, int], ...]
    stop_strings: tuple[str, ...]
    opens_reasoning: Opened
    """Whether the generation prompt opens the reasoning."""
    fallbacks: tuple[str, ...]
    """In force because the template can't do it itself."""
    forgeries: tuple[str, ...]
    """Roles whose text became a special token: must be empty."""
    reworded: tuple[str, ...]
    """Roles whose text is changed by a space where it spells a special token."""
    rehearsals: tuple[Rehearsal, ...]

    @property
    def ok(self) -> bool:
        """Whether every prompt holds, every mask holds, and nothing can be forged."""
        holds = all(r.prompts_hold and r.mask_holds for r in self.rehearsals)
        return holds and not self.forgeries

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Conversations in which the template words earlier turns otherwise."""
        return tuple(r.script for r in self.rehearsals if r.rewritten)

    @property
    def only_appends(self) -> bool:
        """Whether every stream is, token for token, what a plain re-render would give.

        A conversation that the template refuses to render in one go has nothing to differ from.
        """
        return not any(r.differing for r in self.rehearsals)

    def lines(self) -> list[str]:
        """Say it in lines for people."""
        return list(self._lines())

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _lines(self) -> Iterator[str]:
        yield f"tokens are the record: {'yes' if self.ok else 'NO'}"
        yield f"call format: {self.call_format}"
        ends = [f"{text} ({token})" for text, token in self.end_tokens]
        yield f"a turn ends with: {', '.join([*ends, *self.stop_strings]) or 'nothing known'}"
        yield f"the prompt opens the reasoning: {self.opens_reasoning.value}"
        yield from (f"fall-back: {fallback}" for fallback in self.fallbacks)
        yield from (f"FORGED: a {role}'s text became a special token" for role in self.forgeries)
        yield from (
            f"a {role}'s text that spells a special token gets a space" for role in self.reworded
        )
        yield from map(_line, self.rehearsals)


def check_template(renderer: TemplateRenderer) -> TemplateReport:
    """Play conversations through a renderer and report what its template does to them."""
    names = {token: text for text, token in renderer.encoder.special_ids.items()}
    decode = renderer.tokenizer.decode
    attacks = {role: _attack(renderer, reply) for role, reply in _hostile(renderer)}
    return TemplateReport(
        call_format=renderer.call_format.name,
        end_tokens=tuple(
            (names.get(token, decode([token])), token) for token in renderer.stop_token_ids
        ),
        stop_strings=renderer.stop_strings,
        opens_reasoning=renderer.opens_reasoning,
        fallbacks=tuple(t for name, t in _FALLBACKS if not getattr(renderer.dialect, name)),
        forgeries=tuple(role for role, (forged, _) in attacks.items() if forged),
        reworded=tuple(role for role, (_, reworded) in attacks.items() if reworded),
        rehearsals=tuple(rehearse(renderer, script) for script in scripts()),
    )


def _hostile(renderer: TemplateRenderer) -> Iterator[tuple[str, Message]]:
    """Yield replies that spell every special token."""
    text = "x".join(["", *renderer.encoder.special_ids, ""])
    yield "user", Message(role="user", content=text)
    yield "tool", Message(role="tool", content=text, name="look_up", tool_call_id="call_0")


def _attack(renderer: TemplateRenderer, reply: Message) -> tuple[bool, bool]:
    """Tell whether a hostile reply made a special token, and whether its words were changed."""
    special = set(renderer.encoder.special_ids.values())
    harmless = Message(
        role=reply.role, content="x", name=reply.name, tool_call_id=reply.tool_call_id
    )
    made = [
        sum(token in special for token in renderer.follow((), [message]))
        for message in (harmless, reply)
    ]
    pieces = renderer.suffix([reply]).pieces
    return made[0] != made[1], all(piece.trusted for piece in pieces)


def _line(rehearsal: Rehearsal) -> str:
    total = len(rehearsal.stream.token_ids)
    if rehearsal.differing is None:
        told = "the template refuses to render it again"
    elif rehearsal.differing == 0:
        told = f"all {total} tokens equal a plain re-render"
    else:
        told = f"{rehearsal.differing} of {total} tokens differ from a plain re-render"
    why = (
        f"; a {rehearsal.rewritten[-1]}'s reply rewrites the history" if rehearsal.rewritten else ""
    )
    broken = "" if rehearsal.prompts_hold and rehearsal.mask_holds else "; BROKEN"
    return f"{rehearsal.script}: {told}{why}{broken}"
