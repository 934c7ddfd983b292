"""The report on a template: lines that can each fail, and the same as data."""

from dataclasses import dataclass
from typing import Literal

from agentfly.chat.format_choice import Source
from agentfly.chat.reasoning import OpensReasoning
from agentfly.chat.template_check.scenarios import ScenarioResult

Verdict = Literal["yes", "NO", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    held: bool | None
    """None if there was nothing to check, or nothing to check it with."""
    detail: str

    def __str__(self) -> str:
        told = {True: "yes", False: "NO", None: "not checked"}[self.held]
        return f"{self.name}: {told}; {self.detail}" if self.detail else f"{self.name}: {told}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateReport:
    """What was found out about a template and its tokenizer.

    >>> print(check_template(renderer))                                      # doctest: +SKIP
    tokens are the record: yes
    call format: yes; hermes, read back from the template's own text
    end of a turn: yes; <|im_end|> (151645)
    """

    call_format: str
    format_source: Source
    """`"fallback"` if the template's own calls aren't read, with the reason beside it."""
    fallback_reason: str
    one_call: bool | None
    """Whether the template's own text of one call reads back; None if it shows none."""
    two_calls: bool | None
    """The same of two calls in one turn."""
    end_tokens: tuple[tuple[str, int], ...]
    stop_strings: tuple[str, ...]
    opens_reasoning: OpensReasoning
    """Whether the generation prompt opens the reasoning."""
    fallbacks: tuple[str, ...]
    """In force because the template can't do it itself."""
    forgeries: tuple[str, ...]
    """Fields whose text became a special token: must be empty."""
    scenarios: tuple[ScenarioResult, ...]
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """Yes if every line holds; a template that only rewrites the history is not broken."""
        if any(finding.held is False for finding in self.findings):
            return "NO"
        # The first conversation is the plainest: what can't play it can't be vouched for.
        return "yes" if self.scenarios and self.scenarios[0].held else "not checked"

    @property
    def ok(self) -> bool:
        """Whether the verdict is yes."""
        return self.verdict == "yes"

    @property
    def rewrites(self) -> tuple[str, ...]:
        """Conversations in which the template words earlier turns otherwise."""
        return tuple(r.scenario for r in self.scenarios if r.rewritten)

    @property
    def only_appends(self) -> bool:
        """Whether every stream reads just as one rendering of the whole conversation.

        A conversation that the template refuses to render in one go has nothing to differ from.
        """
        return not any(r.differing for r in self.scenarios)

    def lines(self) -> list[str]:
        """Say it in lines for people."""
        return [f"tokens are the record: {self.verdict}", *map(str, self.findings)]

    def __str__(self) -> str:
        return "\n".join(self.lines())
