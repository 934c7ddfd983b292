"""Does a renderer keep its contract?"""

from agentfly.testing.conformance import Findings
from agentfly.types import Completion, FinishReason, Message, Renderer, ToolSpec

_TOOL = ToolSpec(
    name="weather",
    description="Tell the weather of a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city."}},
        "required": ["city"],
    },
)
_OPENING = (Message(role="user", content="Is it raining in Oslo?"),)


def check_renderer(renderer: Renderer) -> None:
    """Raise ConformanceError unless the renderer keeps its contract."""
    findings = Findings(type(renderer).__name__)
    with findings.no_error("opening a conversation"):
        _check_open(findings, renderer)
    with findings.no_error("extending a turn"):
        _check_extend(findings, renderer)
    _check_parse_is_total(findings, renderer)
    findings.report()


def _check_open(findings: Findings, renderer: Renderer) -> None:
    plain = renderer.open(_OPENING, ())
    with_tool = renderer.open(_OPENING, (_TOOL,))
    findings.expect(plain, "open rendered no tokens")
    findings.expect(
        "raining in Oslo" in renderer.decode(plain), "the question is missing from the prompt"
    )
    findings.expect(_TOOL.name in renderer.decode(with_tool), "the tool is missing from the prompt")
    findings.expect(
        renderer.stop_token_ids or renderer.stop_strings, "nothing ends a turn: no stop tokens"
    )


def _check_extend(findings: Findings, renderer: Renderer) -> None:
    """The suffix must close an open turn, and must not close a closed one twice."""
    said = Message(role="assistant", content="I will look.")
    history = (*_OPENING, said)
    reply = (Message(role="user", content="Please hurry."),)
    spoken = renderer.open((Message(role="user", content=said.content),), ())
    cut = _completion(spoken[:3], FinishReason.LENGTH)
    open_turn = renderer.extend(history, cut, reply, ()).token_ids
    findings.expect(
        "Please hurry." in renderer.decode(open_turn), "extend does not render the reply"
    )
    for stop_id in renderer.stop_token_ids[:1]:
        ended = _completion((*spoken[:3], stop_id), FinishReason.STOP)
        closed_turn = renderer.extend(history, ended, reply, ()).token_ids
        findings.expect(
            len(closed_turn) < len(open_turn),
            "extend repeats the end token that the model itself had sampled",
        )


def _check_parse_is_total(findings: Findings, renderer: Renderer) -> None:
    ids = renderer.open(_OPENING, (_TOOL,))
    for sampled in ((), ids[:1], ids, ids[::-1], ids[::3]):
        with findings.no_error(f"parsing the tokens {sampled[:5]}…"):
            parsed = renderer.parse(_completion(sampled, FinishReason.LENGTH))
            findings.expect(
                parsed.message.role == "assistant",
                f"parse gave a message of role {parsed.message.role!r}",
            )


def _completion(ids: tuple[int, ...], finish_reason: FinishReason) -> Completion:
    return Completion(
        token_ids=ids,
        logprobs=(-1.0,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=finish_reason,
    )
