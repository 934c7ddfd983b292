"""Playing a scripted conversation through a renderer, to see what its template makes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from agentfly.chat.imitation import imitate
from agentfly.chat.render import TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import (
    Completion,
    FinishReason,
    Message,
    TokenStream,
    ToolCall,
    ToolSpec,
    Turn,
)

TOOL = ToolSpec(
    name="look_up",
    description="Look something up.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look up."}},
        "required": ["query"],
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is said in a rehearsal: turns of an assistant, each with its replies."""

    name: str
    steps: tuple[tuple[Message, tuple[Message, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """How a conversation went."""

    script: str
    stream: TokenStream
    """The turns as a chain would record them; the last one is cut short at once."""
    rewritten: tuple[str, ...]
    """Roles of the replies that made the template word the history otherwise."""
    plain_ids: tuple[int, ...] | None
    """What the whole conversation would be, rendered and encoded anew; None if that is refused."""

    @property
    def prompts_hold(self) -> bool:
        """Whether every prompt begins with all tokens before it."""
        ids = self.stream.token_ids
        prompts = [self.stream.prompt_ids(i) for i in range(len(self.stream.turns))]
        return all(ids[: len(prompt)] == prompt for prompt in prompts)

    @property
    def mask_holds(self) -> bool:
        """Whether exactly the sampled tokens may carry loss."""
        sampled = [i for i, on in enumerate(self.stream.sampled) if on]
        ids = self.stream.token_ids
        turns = self.stream.turns
        said = [token for turn in turns if turn.completion for token in turn.completion.token_ids]
        return [ids[i] for i in sampled] == said

    @property
    def differing(self) -> int | None:
        """How many tokens differ from a plain re-render; None if there is none."""
        if self.plain_ids is None:
            return None
        ours, theirs = self.stream.token_ids, self.plain_ids
        if ours == theirs:
            return 0
        matcher = SequenceMatcher(a=ours, b=theirs, autojunk=False)
        changes = (o for o in matcher.get_opcodes() if o[0] != "equal")
        return sum(max(a_end - a, b_end - b) for _, a, a_end, b, b_end in changes)


def scripts() -> tuple[Script, ...]:
    """Return conversations that bring out what templates do."""
    question = Message(role="user", content="And in Rome?")
    answer = Message(role="assistant", content="It rains in Paris.")
    thought = replace(answer, reasoning="The user wants the weather.")
    one, two = _calling("Paris"), _calling("Paris", "Rome")
    thought_call = replace(one, reasoning="I should look it up.")
    return (
        Script(name="a tool call", steps=((one, _results(one)),)),
        Script(name="two calls at once", steps=((two, _results(two)),)),
        Script(name="another question", steps=((answer, (question,)),)),
        Script(
            name="a call, an answer, another question",
            steps=((one, _results(one)), (answer, (question,))),
        ),
        Script(name="reasoning, then a call", steps=((thought_call, _results(one)),)),
        Script(name="reasoning, then another question", steps=((thought, (question,)),)),
    )


def rehearse(renderer: TemplateRenderer, script: Script) -> Rehearsal:
    """Play a conversation: each turn is sampled as the template itself would write it."""
    history = [Message(role="user", content="How is the weather in Paris?")]
    rewritten: list[str] = []
    for said, replies in script.steps:
        history.append(said)
        if _is_rewritten(renderer, history, replies):
            rewritten.append(replies[-1].role)
        history += replies
    return Rehearsal(
        script=script.name,
        stream=_with_next_turn(renderer, imitate(renderer, history, [TOOL])),
        rewritten=tuple(rewritten),
        plain_ids=_plain(renderer, history),
    )


def _with_next_turn(renderer: TemplateRenderer, stream: TokenStream) -> TokenStream:
    """Go on to the prompt of one more turn, in which nothing is said."""
    last = stream.turns[-1]
    assert last.completion is not None, "an imitated turn has token ids"
    nothing = Completion(token_ids=(), logprobs=(), versions=(), finish_reason=FinishReason.LENGTH)
    turn = Turn(
        index=len(stream.turns),
        context_ids=renderer.follow(last.completion.token_ids, last.replies, [TOOL]),
        completion=nothing,
        message=Message(role="assistant"),
        temperature=1.0,
    )
    return TokenStream(turns=(*stream.turns, turn))


def _is_rewritten(
    renderer: TemplateRenderer, history: Sequence[Message], replies: Sequence[Message]
) -> bool:
    try:
        return renderer.watch.rewritten(history, replies, [TOOL])
    except ConfigError:
        return False


def _plain(renderer: TemplateRenderer, history: Sequence[Message]) -> tuple[int, ...] | None:
    try:
        return renderer.open(history, [TOOL])
    except ConfigError:
        return None


def _calling(*places: str) -> Message:
    calls = tuple(
        ToolCall(id=f"call_{i}", name=TOOL.name, arguments=f'{{"query": "{place}"}}')
        for i, place in enumerate(places)
    )
    return Message(role="assistant", tool_calls=calls)


def _results(turn: Message) -> tuple[Message, ...]:
    return tuple(
        Message(role="tool", content="Rain, 12°C", name=call.name, tool_call_id=call.id)
        for call in turn.tool_calls
    )
