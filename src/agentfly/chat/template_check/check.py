"""The check of a chat template and its report, which `agentfly check` prints.

Every line of the report can fail. Each compares the renderer's tokens with independent renderings
of the same conversations by transformers (see `reference_renderer`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from agentfly.chat.format_choice import Source
from agentfly.chat.reasoning import OpensReasoning
from agentfly.chat.template_check.forgery import FIELDS, forged_fields
from agentfly.chat.template_check.read_back import (
    TemplateCalls,
    calls_problem,
    content_problem,
    sampled_until_stop,
)
from agentfly.chat.template_check.reference_renderer import TOOL, ReferenceRenderer
from agentfly.chat.template_check.scenarios import (
    Sampled,
    ScenarioResult,
    merging_scenarios,
    run_scenario,
    scenarios,
)
from agentfly.chat.template_renderer import TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import FinishReason

Verdict = Literal["yes", "NO", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    passed: bool | None
    """None if there was nothing to check, or nothing to check it with."""
    detail: str

    def __str__(self) -> str:
        result = {True: "ok", False: "FAILED", None: "not checked"}[self.passed]
        return f"{self.name}: {result}; {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """The result of checking a template with its tokenizer.

    >>> print(check_template(renderer))                                      # doctest: +SKIP
    sampled tokens are kept: yes
    call format: ok; hermes, recognized from the calls that the template writes
    end of a turn: ok; sampling stops at <|im_end|> (id 151645)
    """

    call_format: str
    format_source: Source
    """`"fallback"` if the template's own calls aren't parsed; see `fallback_reason`."""
    fallback_reason: str
    one_call: bool | None
    """Whether the template's own text of one call is parsed back; None if it renders none."""
    two_calls: bool | None
    """The same of two calls in one turn."""
    end_tokens: tuple[tuple[str, int], ...]
    stop_strings: tuple[str, ...]
    opens_reasoning: OpensReasoning
    """When the generation prompt opens the reasoning."""
    fallbacks: tuple[str, ...]
    """In force because the template can't do it itself."""
    forgeries: tuple[str, ...]
    """Fields whose text became a special token: must be empty."""
    scenarios: tuple[ScenarioResult, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """Yes if every line passed; a template that only rewrites the history is not broken."""
        if any(finding.passed is False for finding in self.findings):
            return "NO"
        # The first conversation is the plainest: without it, nothing can be concluded.
        return "yes" if self.scenarios and self.scenarios[0].passed else "not checked"

    @property
    def ok(self) -> bool:
        """True if the verdict is yes."""
        return self.verdict == "yes"

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Conversations in which the template rewrites earlier turns."""
        return tuple(r.scenario for r in self.scenarios if r.rewritten)

    @property
    def only_appends(self) -> bool:
        """True if every stream equals one rendering of the whole conversation.

        A conversation that the template refuses to render in one go has nothing to differ from.
        """
        return not any(r.differing for r in self.scenarios)

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        return [f"sampled tokens are kept: {self.verdict}", *map(str, self.findings)]

    def __str__(self) -> str:
        return "\n".join(self.lines())


_FALLBACKS = (
    ("system", "system messages go in front of the first user's message"),
    ("tools", "tools are described in the system prompt"),
    ("calls", "tool calls of earlier turns are written into the content"),
    ("tool_messages", "tool results are given as a user's message"),
)
_EXCERPT = 200
"""Maximum characters shown of a call that no format reads."""


def check_template(renderer: TemplateRenderer) -> TemplateReport:
    """Play conversations through a renderer and report what its template does to them."""
    missing = ReferenceRenderer.missing()
    if missing:
        return _unchecked(renderer, missing)
    try:
        reference = ReferenceRenderer(renderer.template)
    except ConfigError as error:
        return _unchecked(renderer, str(error))
    return _Check(renderer, reference).report()


class _Check:
    """The check of one renderer against one reference."""

    def __init__(self, renderer: TemplateRenderer, reference: ReferenceRenderer) -> None:
        self._renderer = renderer
        self._reference = reference
        self._own = TemplateCalls(renderer, reference)
        self._scenarios = _run_scenarios(renderer, reference)
        self._turns = [turn for result in self._scenarios for turn in result.turns]
        self._ended = [
            turn for turn in self._turns if turn.completion.finish_reason is FinishReason.STOP
        ]
        self._forgeries = forged_fields(renderer, reference)

    def report(self) -> TemplateReport:
        """Return the report."""
        renderer, own = self._renderer, self._own
        return TemplateReport(
            call_format=renderer.call_format.name,
            format_source=renderer.format_choice.source,
            fallback_reason=self._fallback_reason(),
            one_call=own.unread(own.one) is None if own.one else None,
            two_calls=own.unread(own.two) is None if own.two else None,
            end_tokens=_end_tokens(renderer),
            stop_strings=renderer.stop_strings,
            opens_reasoning=renderer.opens_reasoning,
            fallbacks=_fallbacks(renderer),
            forgeries=self._forgeries,
            scenarios=tuple(self._scenarios),
            findings=tuple(self._findings()),
        )

    def _findings(self) -> Iterator[Finding]:
        yield self._call_format()
        yield self._calls("one call", 1)
        yield self._calls("two calls", 2)
        yield self._content()
        yield self._ends()
        yield self._stops()
        yield self._fallback_use()
        yield self._history()
        yield self._special_tokens()
        yield from map(_stream, self._scenarios)

    @property
    def _is_fallback(self) -> bool:
        return self._renderer.format_choice.source == "fallback"

    def _fallback_reason(self) -> str:
        if not self._is_fallback:
            return ""
        if not self._own.one:
            shown = "the template doesn't show an assistant's tool calls"
            return self._reference.capabilities.refusal or shown
        text = self._own.one[-1][1].strip()
        shown = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
        return f"no known format reads back the call that the template writes: {shown!r}"

    def _call_format(self) -> Finding:
        name = self._renderer.call_format.name
        if not self._is_fallback:
            source = {
                "read back": "recognized from the calls that the template writes",
                "tool prompt": "recognized from the template's instructions about tools",
                "given": "as requested",
            }[self._renderer.format_choice.source]
            return Finding(name="call format", passed=True, detail=f"{name}, {source}")
        readers = self._own.readers()
        if readers:
            detail = (
                f"{name} is used as a fallback, but {readers[0]} reads the template's own calls"
            )
            return Finding(name="call format", passed=False, detail=detail)
        detail = f"{name}, described in the system prompt: {self._fallback_reason()}"
        return Finding(name="call format", passed=True, detail=detail)

    def _calls(self, name: str, count: int) -> Finding:
        """Check the template's own text of calls, or that of the format which is taught."""
        shown = self._own.one if count == 1 else self._own.two
        if shown and not self._taught:
            problem = self._own.unread(shown)
            return Finding(
                name=name, passed=problem is None, detail=problem or "parsed back as written"
            )
        turns = [turn for turn in self._ended if len(turn.message.tool_calls) == count]
        if not turns or not self._taught:
            return Finding(
                name=name,
                passed=None,
                detail="the template doesn't render that many calls in a turn",
            )
        problems = (calls_problem(self._renderer, t.message, t.completion) for t in turns)
        problem = next(filter(None, problems), None)
        return Finding(
            name=name, passed=problem is None, detail=problem or "parsed back as written"
        )

    @property
    def _taught(self) -> bool:
        """True if calls are written into the content, not by the template."""
        return not self._renderer.capabilities.calls

    def _content(self) -> Finding:
        problems = (content_problem(self._renderer, turn) for turn in self._turns)
        opening = self._renderer.opens_reasoning.value
        opens = f"parsed back as written; the generation prompt opens the reasoning: {opening}"
        return _first_problem("answers and reasoning", problems, opens)

    def _ends(self) -> Finding:
        tokens, strings = _end_tokens(self._renderer), self._renderer.stop_strings
        known = {*(text for text, _ in tokens), *strings}
        written = dict.fromkeys(turn.expected.end.strip() for turn in self._ended)
        missing = [end for end in written if end and end not in known]
        stops = ", ".join([*(f"{text} (id {token})" for text, token in tokens), *strings])
        detail = f"sampling stops at {stops or 'nothing'}"
        if missing:
            detail = f"the template ends a turn with {missing[0]}, {detail}"
        return Finding(name="end of a turn", passed=not missing and bool(known), detail=detail)

    def _stops(self) -> Finding:
        problems = (self._stopped_inside(turn) for turn in self._ended)
        return _first_problem("no stop inside a turn", problems, f"{len(self._ended)} turns tried")

    def _stopped_inside(self, turn: Sampled) -> str | None:
        ids = turn.completion.token_ids
        length = sampled_until_stop(self._renderer, turn.completion)
        own = self._renderer.decode(ids[:length])
        if length is None or len(own) >= len(turn.expected.own):
            return None
        return f"sampling stops after {own!r}, before {self._renderer.decode(ids[length:])!r}"

    def _fallback_use(self) -> Finding:
        capabilities, able = self._renderer.capabilities, self._reference.capabilities
        taught = self._renderer.call_format.instructions([TOOL]) is not None
        excused = {
            "tools": taught or self._taught,
            "calls": taught,
            "tool_messages": taught and not able.results_alone,
        }
        wrong = [
            text
            for name, text in _FALLBACKS
            if getattr(capabilities, name) != getattr(able, name)
            and not (excused.get(name) and not getattr(capabilities, name))
        ]
        if wrong:
            needless = f"used without need, or missing: {wrong[0]}"
            return Finding(name="fallbacks", passed=False, detail=needless)
        used = "; ".join(_fallbacks(self._renderer))
        detail = f"for what the template can't render: {used}" if used else "none needed"
        return Finding(name="fallbacks", passed=True, detail=detail)

    def _history(self) -> Finding:
        problem = next((r.misjudged for r in self._scenarios if r.misjudged), "")
        rewritten = [r for r in reversed(self._scenarios) if r.rewritten]
        # One example of each kind: the same words come before the colon.
        kinds = {r.rewritten.partition(":")[0]: r for r in rewritten}
        examples = "; ".join(
            f"{r.rewritten} (conversation with {r.scenario})" for r in kinds.values()
        )
        detail = "the template never rewrites earlier turns"
        if examples:
            detail = f"the template rewrites earlier turns, which stay as sampled here: {examples}"
        return Finding(name="history", passed=not problem, detail=problem or detail)

    def _special_tokens(self) -> Finding:
        trusted = self._renderer.trusted_roles
        tried = [name for name, (role, _) in FIELDS.items() if role not in trusted]
        detail = f"no text from outside becomes one, in {len(tried)} fields tried"
        if trusted:
            detail += f"; allowed for {', '.join(trusted)}"
        if self._forgeries:
            detail = f"text became a special token in: {', '.join(self._forgeries)}"
        return Finding(name="special tokens", passed=not self._forgeries, detail=detail)


def _run_scenarios(
    renderer: TemplateRenderer, reference: ReferenceRenderer
) -> list[ScenarioResult]:
    played = [run_scenario(renderer, reference, scenario) for scenario in scenarios(reference)]
    plain = next((turn for r in played for turn in r.turns if not turn.message.tool_calls), None)
    if plain is not None:
        more = merging_scenarios(renderer, plain.expected.closing)
        played += [run_scenario(renderer, reference, scenario) for scenario in more]
    return played


def _first_problem(name: str, problems: Iterator[str | None], fine: str) -> Finding:
    problem = next(filter(None, problems), None)
    return Finding(name=name, passed=problem is None, detail=problem or fine)


def _stream(result: ScenarioResult) -> Finding:
    name = f"conversation with {result.scenario}"
    if result.refused:
        return Finding(name=name, passed=None, detail=result.refused)
    if result.error:
        return Finding(name=name, passed=False, detail=f"it can't be rendered: {result.error}")
    if result.broken_tokens:
        detail = f"{result.broken_tokens} of {result.tokens} tokens are wrong: {result.where}"
    elif result.differing:
        detail = (
            f"{result.differing} of {result.tokens} tokens differ from transformers' rendering, "
            f"because the template rewrites earlier turns; kept as sampled: {result.where}"
        )
    else:
        detail = f"all {result.tokens} tokens equal transformers' rendering"
    return Finding(name=name, passed=result.passed, detail=detail)


def _fallbacks(renderer: TemplateRenderer) -> tuple[str, ...]:
    return tuple(text for name, text in _FALLBACKS if not getattr(renderer.capabilities, name))


def _end_tokens(renderer: TemplateRenderer) -> tuple[tuple[str, int], ...]:
    names = {token: text for text, token in renderer.encoder.special_ids.items()}
    return tuple(
        (names.get(token, renderer.decode([token])), token) for token in renderer.stop_token_ids
    )


def _unchecked(renderer: TemplateRenderer, reason: str) -> TemplateReport:
    """Report what the renderer says of itself, none of which was checked."""
    choice = renderer.format_choice
    return TemplateReport(
        call_format=renderer.call_format.name,
        format_source=choice.source,
        fallback_reason=choice.reason,
        one_call=None,
        two_calls=None,
        end_tokens=_end_tokens(renderer),
        stop_strings=renderer.stop_strings,
        opens_reasoning=renderer.opens_reasoning,
        fallbacks=_fallbacks(renderer),
        forgeries=(),
        scenarios=(),
        findings=(Finding(name="every line", passed=None, detail=reason),),
    )
