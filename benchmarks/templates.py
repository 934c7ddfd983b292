"""Results of `chat` with real chat templates, compared with transformers' own renderings.

    python -m benchmarks.templates                   # all at hand, written to results/
    python -m benchmarks.templates --folder PATH     # those of a folder instead

The truth is a table written by hand (`template_truth`) and what transformers' Jinja renders
(`template_renderings`); of templates that the table doesn't know, the renderings alone. Run with
`make check-templates`, or `make check-templates TEMPLATES=PATH`.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import report
from benchmarks.template_files import real_templates
from benchmarks.template_verdicts import Outcome, judge, renders, usable_renderer

from agentfly.chat import check_template
from agentfly.chat.template_check.check import TemplateReport
from agentfly.errors import ConfigError

AIMS = {
    "one_call_share": ">= 0.95",
    "two_calls_share": ">= 0.95",
    "reasoning_share": ">= 0.95",
    "stream_exact_share": ">= 0.95",
    "false_verdicts": "0",
}
_MUST_HOLD = (
    *("right_format", "one_call", "two_calls", "answer", "reasoning", "right_end", "stream"),
    "stops_at_end",
)
"""Fields that must not be False for a template that passes `check`."""
_SIGNS = {True: "yes", False: "NO", None: "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One template's line of the table."""

    name: str
    outcome: Outcome | None
    """None if the template can't be used."""
    call_format: str = "-"
    false_verdict: str = ""
    """Description of how the verdict of `check` is wrong; empty if it is right."""
    reason: str = ""
    """Lines of `check` that failed."""


def check(name: str, source: str) -> Row:
    """Judge a template, and the verdict on it."""
    unusable = renders(source)
    try:
        renderer = usable_renderer(source)
    except ConfigError as error:
        wrong = "" if unusable else "refused, but transformers renders it"
        return Row(name=name, outcome=None, false_verdict=wrong, reason=str(error))
    if unusable:
        wrong = f"taken, but transformers says: {unusable}"
        return Row(name=name, outcome=None, false_verdict=wrong)
    outcome = judge(name, source, renderer)
    verdict = check_template(renderer)
    return Row(
        name=name,
        outcome=outcome,
        call_format=verdict.call_format,
        false_verdict="; ".join(_false(verdict, outcome)),
        reason="; ".join(_reasons(verdict)),
    )


def _false(verdict: TemplateReport, outcome: Outcome) -> Iterator[str]:
    """Return how the verdict of `check` differs from the truth."""
    broken = [name for name in _MUST_HOLD if getattr(outcome, name) is False]
    if verdict.format_source == "fallback" and verdict.fallback_reason:
        # Calls that nothing reads are no fault of the renderer: they are named, with the reason.
        broken = [name for name in broken if name not in ("right_format", "one_call", "two_calls")]
    if verdict.ok == bool(broken):
        yield f"it says {verdict.verdict}, and not to hold is: {', '.join(broken) or 'nothing'}"
    if bool(verdict.rewrites) != outcome.rewrites:
        yield f"it says that history is rewritten: {bool(verdict.rewrites)}, and it is not so"
    for name in ("one_call", "two_calls"):
        told, is_so = getattr(verdict, name), getattr(outcome, name)
        if told != is_so:
            yield f"it says of {name}: {_SIGNS[told]}, and the truth is: {_SIGNS[is_so]}"


def _reasons(verdict: TemplateReport) -> Iterator[str]:
    """Return the lines of `check` that failed, and the reason for a fallback."""
    yield from (str(finding) for finding in verdict.findings if finding.passed is False)
    if verdict.fallback_reason:
        yield f"fall-back: {verdict.fallback_reason}"


def print_table(rows: Sequence[Row]) -> None:
    """Print a line per template, and below it what failed."""
    width = max(len(row.name) for row in rows)
    heads = ("loads", "format", "one", "two", "thought", "end", "stream", "rewrites", "verdict")
    print(f"{'template':{width}}  {'call format':13}  {'  '.join(heads)}")
    for row in rows:
        cells = zip(_cells(row), heads, strict=True)
        shown = "  ".join(f"{cell:{len(head)}}" for cell, head in cells)
        print(f"{row.name:{width}}  {row.call_format:13}  {shown}".rstrip())
        for remark in _remarks(row):
            print(f"    {remark}")


def _cells(row: Row) -> list[str]:
    verdict = _SIGNS[not row.false_verdict].replace("yes", "true").replace("NO", "FALSE")
    found = row.outcome
    if found is None:
        return ["NO", *["-"] * 7, verdict]
    told = (found.right_format, found.one_call, found.two_calls, found.reasoning, found.right_end)
    rewrites = "yes" if found.rewrites else "no"
    return ["yes", *(_SIGNS[cell] for cell in told), _SIGNS[found.stream], rewrites, verdict]


def _remarks(row: Row) -> Iterable[str]:
    if row.false_verdict:
        yield f"the verdict is false: {row.false_verdict}"
    if row.reason:
        yield f"check: {row.reason}"
    yield from row.outcome.differences if row.outcome else ()


def numbers(rows: Sequence[Row]) -> dict[str, float]:
    """Return the counts and shares."""
    loaded = [row.outcome for row in rows if row.outcome]
    appending = [outcome.stream for outcome in loaded if not outcome.rewrites]
    elsewhere = [outcome.stream for outcome in loaded if outcome.rewrites]
    return {
        "templates": len(rows),
        "loads": len(loaded),
        "right_format_share": _share(outcome.right_format for outcome in loaded),
        "one_call_share": _share(outcome.one_call for outcome in loaded),
        "two_calls_share": _share(outcome.two_calls for outcome in loaded),
        "answer_share": _share(outcome.answer for outcome in loaded),
        "reasoning_share": _share(outcome.reasoning for outcome in loaded),
        "right_end_share": _share(outcome.right_end for outcome in loaded),
        "rewriting": sum(outcome.rewrites for outcome in loaded),
        "stream_exact_share": _share(appending),
        "rewriting_stream_exact_share": _share(elsewhere),
        "false_verdicts": sum(bool(row.false_verdict) for row in rows),
    }


def _share(held: Iterable[bool | None]) -> float:
    """Return the share of those that passed, of all that could; 1 if none could."""
    judged = [each for each in held if each is not None]
    return sum(judged) / len(judged) if judged else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, help="check the templates in this folder instead")
    folder = parser.parse_args().folder
    files = real_templates(folder)
    if not files:
        parser.error(f"{folder or 'the installed packages'} has no file that ends in .jinja")
    rows = [check(name, file.read_text(encoding="utf-8")) for name, file in sorted(files.items())]
    print_table(rows)
    report("templates", numbers(rows), aims=AIMS)


if __name__ == "__main__":
    main()
