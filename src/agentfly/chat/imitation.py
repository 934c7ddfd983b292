r"""A given conversation as the token stream that a chain would have recorded.

Each assistant message becomes a completion: the tokens that a model which writes exactly as its
template does would have sampled, including the end token. Everything else is context. So
demonstrations and sampled chains carry loss on the same tokens.

    user: hi                       assistant: Hello!    user: Bye.             assistant: Bye!
    <|im_start|>user…assistant\n   Hello!<|im_end|>     \n<|im_start|>user…\n  Bye!<|im_end|>
    context                        sampled              context                sampled
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentfly.chat.reasoning import OpensReasoning, split_reasoning
from agentfly.chat.safe_encode import Piece
from agentfly.chat.suffix import TurnEnd
from agentfly.chat.taint import Swap
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, TokenStream, ToolSpec, Turn


def imitate(
    renderer: TemplateRenderer,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    opening: int | None = None,
) -> TokenStream:
    """Write a conversation as if a model had sampled its assistant's messages.

    The stream stays as written, also where the template would rewrite earlier turns. No
    sampler has seen these tokens: their log-probabilities are given as 0.

    Args:
        renderer: Of the model that is to learn from it.
        messages: The whole conversation. What follows the last assistant's message is left out.
        tools: The tools that the prompt describes.
        opening: How many messages are the prompt, with the assistant's messages among them; by
            default all up to the first assistant's message.
    """
    turns: list[Turn] = []
    context = None
    for said in _said(messages, tools, _prompt(messages, opening)):
        if context is None:
            context = renderer.open(said.history, tools)
        completion = _sampled(renderer, said)
        turns.append(
            Turn(
                index=len(turns),
                context_ids=context,
                completion=completion,
                message=said.message,
                temperature=1.0,
                replies=tuple(said.replies),
                reasoning_spans=renderer.parse(completion).reasoning_spans,
            )
        )
        if said.replies:
            context = renderer.suffix_ids(completion.token_ids, said.replies, tools, said.history)
    return TokenStream(turns=tuple(turns))


def require_readable(
    renderer: TemplateRenderer, stream: TokenStream, *, calls_in_content: bool = False
) -> None:
    """Refuse a stream that would teach a model to say something else than its messages say.

    With `calls_in_content`, a message may spell calls in its content and have none besides.
    """
    ends = [renderer.decode([token]) for token in renderer.stop_token_ids]
    for turn in stream.turns:
        assert turn.completion is not None, "an imitated turn has token ids"
        spelled = [end for end in ends if end in turn.message.content]
        if spelled:
            raise ConfigError(
                f"turn {turn.index + 1} spells {spelled[0]!r}, with which a turn ends: take it out"
            )
        meant = [call.name for call in turn.message.tool_calls]
        read = [call.name for call in renderer.parse(turn.completion).message.tool_calls]
        if read != meant and (meant or not calls_in_content):
            raise ConfigError(
                f"turn {turn.index + 1} calls {meant}, but the format of this model's template "
                f"({renderer.call_format.name}) reads {read} from what it writes"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """An assistant's message in its place."""

    history: Sequence[Message]
    message: Message
    replies: Sequence[Message]
    """Messages up to the assistant's next one; none behind the last one."""
    tools: Sequence[ToolSpec]

    def swapped(self, swap: Swap) -> "_Said":
        """Return the same with all that comes from outside swapped."""
        return _Said(
            history=list(map(swap.message, self.history)),
            message=_swapped_turn(swap, self.message),
            replies=self.replies,
            tools=list(map(swap.tool, self.tools)),
        )


def _swapped_turn(swap: Swap, message: Message) -> Message:
    """Swap a turn, but for the marks around reasoning that was left in its content.

    Demonstrations often come so, and the model is to learn the marks as the tokens that they are.
    """
    swapped = swap.message(message)
    thought = split_reasoning(message.content)
    if not thought.text:
        return swapped
    head, rest = message.content[: thought.end], message.content[thought.end :]
    before, _, behind = head.partition(thought.text)
    return replace(swapped, content=before + swap.text(thought.text) + behind + swap.text(rest))


def _prompt(messages: Sequence[Message], opening: int | None) -> int:
    """Return the number of messages before the first one that is imitated."""
    start = opening or 0
    turns = [i for i, m in enumerate(messages) if m.role == "assistant" and i >= start]
    if not turns:
        raise ConfigError("the conversation has no assistant's message to learn from")
    if turns[0] == 0:
        raise ConfigError("the conversation begins with an assistant's message: nothing is asked")
    return turns[0]


def _said(messages: Sequence[Message], tools: Sequence[ToolSpec], first: int) -> Iterator[_Said]:
    places = [i for i in range(first, len(messages)) if messages[i].role == "assistant"]
    for place, following in zip(places, [*places[1:], len(messages)], strict=True):
        if following == place + 1 < len(messages):
            raise ConfigError(
                f"messages {place + 1} and {place + 2} are both the assistant's: join them, or "
                "put what was answered between them"
            )
        yield _Said(
            history=messages[:place],
            message=messages[place],
            replies=messages[place + 1 : following],
            tools=tools,
        )


def _sampled(renderer: TemplateRenderer, said: _Said) -> Completion:
    """Make the completion of a model that writes just as the template does."""
    replies = said.replies or _likely_replies(said.message)
    end = renderer.suffix(replies, said.tools, said.history).end
    pieces = renderer.taint.pieces(lambda swap: _written(renderer, said.swapped(swap), end.last))
    # A stop string ends the sampling, before an end token can follow it.
    if not "".join(piece.text for piece in pieces).endswith(renderer.stop_strings):
        pieces.append(Piece(_sampled_end(end), trusted=True))
    ids = renderer.encoder.encode(pieces, after=renderer.encoder.anchor)
    return Completion(
        token_ids=tuple(ids),
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=FinishReason.STOP,
    )


def _likely_replies(message: Message) -> list[Message]:
    """Return plausible replies, because some templates end a turn by what follows it."""
    if not message.tool_calls:
        return [Message(role="user")]
    return [
        Message(role="tool", name=call.name, tool_call_id=call.id) for call in message.tool_calls
    ]


def _sampled_end(end: TurnEnd) -> str:
    """Return what a model samples to end a turn: all up to and with the end token."""
    if not end.tokens:
        return end.spelled.rstrip()
    before, token, _ = end.last.rpartition(end.tokens[0])
    return before + token if token else end.tokens[0]


def _written(renderer: TemplateRenderer, said: _Said, closing: str) -> str:
    """Return a turn's text as the template writes it, or else as the call format does."""
    try:
        before = renderer.writer.text(said.history, said.tools)
        turn = renderer.writer.text(
            [*said.history, said.message], said.tools, add_generation_prompt=False
        )
    except ConfigError:
        before, turn = "?", ""
    if turn.startswith(before):
        return turn[len(before) :].removesuffix(closing)
    return _written_by_format(renderer, said.message)


def _written_by_format(renderer: TemplateRenderer, message: Message) -> str:
    thought = f"{message.reasoning or ''}\n</think>\n\n"
    try:
        written = renderer.call_format.write(message.tool_calls, message.content)
    except ConfigError:  # a user's own format that only reads
        written = message.content
    return written if renderer.opens_reasoning is OpensReasoning.NEVER else thought + written
