"""Scripted conversations, run through a renderer as a chain runs them.

Each turn is what the template itself writes, taken from an independent rendering (see
`expected_turn`); the renderer makes the first prompt and the suffix of each turn. The resulting
tokens are compared with the expected text.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from agentfly.chat.jinja_sandbox import RenderTimeout
from agentfly.chat.template_check.expected_turn import ExpectedTurn, difference, expect_turn
from agentfly.chat.template_check.reference_renderer import TOOL, ReferenceRenderer
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.errors import AgentFlyError, ConfigError, boundary
from agentfly.types import Completion, FinishReason, Message

QUESTION = Message(role="user", content="How is the weather in Paris?")
_NEXT = Message(role="user", content="And what about Rome?")
_ANSWER = Message(role="assistant", content="It rains over there.")
_ENDINGS = (".", "\n", " ", "!", ")", '"', ">", "}", "]", "<", "|", "\n\n")
"""Characters that may be one token with the mark behind them."""
_MOST_ENDINGS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A scripted conversation: the assistant's turns, each with its replies."""

    name: str
    steps: tuple[tuple[Message, tuple[Message, ...]], ...]
    opening: tuple[Message, ...] = (QUESTION,)
    cut: bool = False
    """The last turn is cut before it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """A turn as a model would sample it."""

    message: Message
    expected: ExpectedTurn
    completion: Completion


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioResult:
    """The result of running a scenario."""

    scenario: str
    tokens: int = 0
    """Length of the stream."""
    broken_tokens: int = 0
    """Tokens that differ from what must come out: 0 for every renderer that is right."""
    differing: int | None = None
    """Tokens that differ from one rendering of the whole conversation; None if that is refused.
    Where it is not 0 but `broken_tokens` is, the template rewrites the history."""
    where: str = ""
    """Both sides around the first difference."""
    rewritten: str = ""
    """Description of how the template rewrites earlier turns; empty if it doesn't."""
    misjudged: str = ""
    """Description of a rewriting that the renderer misses, or wrongly reports."""
    refused: str = ""
    """Reason why the template has no rendering to compare with."""
    error: str = ""
    """Error of the renderer on a conversation that the template accepts, or of a time-out."""
    turns: tuple[Sampled, ...] = field(default=(), repr=False)

    @property
    def passed(self) -> bool | None:
        """True if the stream is right; None if there is nothing to compare it with."""
        if self.refused:
            return None
        return not self.broken_tokens and not self.error


def scenarios(reference: ReferenceRenderer) -> tuple[Scenario, ...]:
    """Return conversations that show what templates do."""
    one, other = _calling(reference, "Paris"), _calling(reference, "Rome", first=1)
    two = _calling(reference, "Paris", "Rome")
    thought = replace(_ANSWER, reasoning="The user wants the weather.")
    thought_call = replace(one, reasoning="I should look it up.")
    system = Message(role="system", content="You are a forecaster.")
    return (
        Scenario(name="another question", steps=((_ANSWER, (_NEXT,)),)),
        Scenario(name="a system prompt", steps=((_ANSWER, (_NEXT,)),), opening=(system, QUESTION)),
        Scenario(name="a tool call", steps=((one, _results(one)),)),
        Scenario(name="two calls at once", steps=((two, _results(two)),)),
        Scenario(
            name="two rounds of tools",
            steps=((one, _results(one)), (other, _results(other)), (_ANSWER, (_NEXT,))),
            opening=(system, QUESTION),
        ),
        Scenario(name="reasoning, then a call", steps=((thought_call, _results(one)),)),
        Scenario(name="reasoning, then another question", steps=((thought, (_NEXT,)),)),
        Scenario(
            name="reasoning, a call, then another question",
            steps=((thought_call, _results(one)), (thought, (_NEXT,))),
        ),
        Scenario(
            name="a turn cut at the length limit",
            steps=((replace(_ANSWER, content="It rains ov"), (_NEXT,)),),
            cut=True,
        ),
    )


def merging_scenarios(renderer: TemplateRenderer, closing: str) -> tuple[Scenario, ...]:
    """Return conversations whose answer ends in characters that are one token with the closing."""
    encode = renderer.tokenizer.encode
    merging = [
        ending
        for ending in _ENDINGS
        if len(encode(f"a{ending}{closing}")) < len(encode(f"a{ending}")) + len(encode(closing))
    ]
    chosen = (merging or [".", "\n"])[:_MOST_ENDINGS]
    answers = [replace(_ANSWER, content=f"It rains over there{ending}") for ending in chosen]
    return tuple(
        Scenario(name=f"an answer that ends in {ending!r}", steps=((answer, (_NEXT,)),))
        for ending, answer in zip(chosen, answers, strict=True)
    )


def run_scenario(
    renderer: TemplateRenderer, reference: ReferenceRenderer, scenario: Scenario
) -> ScenarioResult:
    """Play a conversation, and hold the stream against the text that must come out."""
    try:
        turns = _expected(renderer, reference, scenario)
    except ConfigError as error:
        if isinstance(error.__cause__, RenderTimeout):
            return ScenarioResult(scenario=scenario.name, error=str(error))
        return ScenarioResult(scenario=scenario.name, refused=str(error))
    rewritten = _reasons(turns)
    try:
        with boundary(ConfigError, "playing the conversation"):
            ids, text = _play(renderer, scenario, turns)
            misjudged = _misjudged(renderer, scenario, turns)
    except AgentFlyError as error:
        return ScenarioResult(
            scenario=scenario.name, error=str(error), rewritten=rewritten, turns=tuple(turns)
        )
    tokenizer = renderer.tokenizer
    ours, must = tokenizer.decode(ids), _as_decoded(renderer, text)
    whole = _as_decoded(renderer, turns[-1].expected.replied)
    return ScenarioResult(
        scenario=scenario.name,
        tokens=len(ids),
        broken_tokens=_differing(renderer, ours, must),
        differing=_differing(renderer, ours, whole),
        where=difference(ours, must if ours != must else whole) if ours != whole else "",
        rewritten=rewritten if ours != whole else "",
        misjudged=misjudged,
        turns=tuple(turns),
    )


def sample(renderer: TemplateRenderer, text: str, reason: FinishReason) -> Completion:
    """Encode a text as a model might sample it."""
    tokenizer = renderer.tokenizer
    anchor = next(iter(tokenizer.special_ids), "")
    # Behind a special token, text is encoded as if it didn't begin a document.
    ids = tuple(tokenizer.encode(anchor + text)[1 if anchor else 0 :])
    return Completion(
        token_ids=ids,
        logprobs=(0.0,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=reason,
    )


def _expected(
    renderer: TemplateRenderer, reference: ReferenceRenderer, scenario: Scenario
) -> list[Sampled]:
    """Work out each turn from independent renderings."""
    tools = [TOOL] if renderer.capabilities.tools else []

    def render(messages: Sequence[Message], *, prompt: bool) -> str:
        adapted = list(renderer.writer.variants(messages, [TOOL]))
        try:
            return reference.text(adapted[0], tools, prompt=prompt)
        except ConfigError:
            return reference.text(adapted[1], tools, prompt=prompt)

    history, turns = list(scenario.opening), list[Sampled]()
    for number, (said, replies) in enumerate(scenario.steps, 1):
        turn = expect_turn(render, history, said, replies, renderer.encoder.pattern)
        cut = scenario.cut and number == len(scenario.steps)
        text = turn.own if cut else turn.sampled
        reason = FinishReason.LENGTH if cut else FinishReason.STOP
        turns.append(
            Sampled(message=said, expected=turn, completion=sample(renderer, text, reason))
        )
        history += [said, *replies]
    return turns


def _play(
    renderer: TemplateRenderer, scenario: Scenario, turns: Sequence[Sampled]
) -> tuple[tuple[int, ...], str]:
    """Return the tokens of the stream, and the text that they must be."""
    history = list(scenario.opening)
    ids, text = renderer.open(history, [TOOL]), turns[0].expected.before
    for turn, (said, replies) in zip(turns, scenario.steps, strict=True):
        history.append(said)
        extension = renderer.extend(history, turn.completion, replies, [TOOL])
        history += replies
        expected = turn.expected
        if extension.new_stream:
            ids, text = extension.token_ids, expected.replied
            continue
        ids = (*ids, *turn.completion.token_ids, *extension.token_ids)
        cut = turn.completion.finish_reason is FinishReason.LENGTH
        text += (
            expected.own + expected.closing_and_rest if cut else expected.sampled + expected.rest
        )
    return ids, text


def _misjudged(renderer: TemplateRenderer, scenario: Scenario, turns: Sequence[Sampled]) -> str:
    """Compare what the renderer takes for a rewriting with what it is."""
    history = list(scenario.opening)
    for turn, (said, replies) in zip(turns, scenario.steps, strict=True):
        history.append(said)
        judged = renderer.rewrite_detector.rewritten(history, replies, [TOOL], turn.expected.own)
        if judged and not turn.expected.rewritten:
            return "the renderer reports that the template rewrites earlier turns, which it doesn't"
        if turn.expected.rewritten and not judged:
            return f"the renderer overlooks that {turn.expected.rewritten}"
        history += replies
    return ""


def _reasons(turns: Sequence[Sampled]) -> str:
    expected = [turn.expected for turn in turns]
    reasons = [*(t.rewritten for t in expected), *(t.other_end for t in expected)]
    return "; ".join(dict.fromkeys(filter(None, reasons)))


def _as_decoded(renderer: TemplateRenderer, text: str) -> str:
    """Return a text as this tokenizer gives it back, which may normalize it."""
    return renderer.tokenizer.decode(renderer.tokenizer.encode(text))


def _differing(renderer: TemplateRenderer, one: str, other: str) -> int:
    """Return how many tokens differ between two texts, each encoded at once."""
    if one == other:
        return 0
    encoded = [renderer.tokenizer.encode(text) for text in (one, other)]
    matcher = SequenceMatcher(a=encoded[0], b=encoded[1], autojunk=False)
    changes = (o for o in matcher.get_opcodes() if o[0] != "equal")
    return sum(max(a_end - a, b_end - b) for _, a, a_end, b, b_end in changes)


def _calling(reference: ReferenceRenderer, *places: str, first: int = 0) -> Message:
    arguments = ({"query": place} for place in places)
    return Message(role="assistant", tool_calls=reference.calls(*arguments, first=first))


def _results(turn: Message) -> tuple[Message, ...]:
    weather = {"Paris": "Rain and 12 degrees", "Rome": "Sun and 20 degrees"}
    return tuple(
        Message(role="tool", content=answer, name=call.name, tool_call_id=call.id)
        for call in turn.tool_calls
        for place, answer in weather.items()
        if place in call.arguments
    )
