"""Evaluations on the terminal: a table of rows, what failed, and a curve over checkpoints."""

from collections.abc import Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.observe.estimate import interval_text
from agentfly.observe.evaluation_summary import Estimate, EvaluationRow
from agentfly.types.short_text import count, printable, shorten


def show_evaluation(rows: Sequence[EvaluationRow], console: Console) -> None:
    """Print the rows of one evaluation, and why chains failed, if any did."""
    console.print(_table(rows))
    whole = rows[0]
    for line in notes(whole):
        console.print(Text(printable(line)), soft_wrap=True)


def show_curve(rows_by_step: Mapping[int, Sequence[EvaluationRow]], console: Console) -> None:
    """Print one row for each evaluated checkpoint."""
    whole = [rows[0] for rows in rows_by_step.values()]
    console.print(_table(whole, titles=[f"step {step}" for step in rows_by_step]))


def notes(row: EvaluationRow) -> Iterator[str]:
    """Yield what a chain took, how chains stopped, and what the numbers leave out."""
    yield f"a chain: {', '.join(_means(row))}"
    stops = ", ".join(f"{stop} {count}" for stop, count in row.stops.items())
    yield f"{row.chains} chains stopped by: {stops or '-'}"
    if row.failures:
        causes = ", ".join(f"{cause} {count}" for cause, count in row.failures.items())
        yield f"failed: {causes}"
    if row.failed:
        yield (
            f"{row.failed} of {row.chains} chains failed for a reason outside the model and are "
            "left out of the numbers above; --resume tries them again"
        )
    if row.unscored:
        yield (
            f"{row.unscored} of {count(row.chains, 'chain')} ended without a score: no step had a "
            "reward, and no reward function scored the chain. The numbers above leave them out and "
            "may be too high; let every Step have a reward, such as 0.0, or name a reward function"
        )


def _means(row: EvaluationRow) -> Iterator[str]:
    if row.prompt_tokens is not None:
        yield f"{row.prompt_tokens:.0f} prompt tokens"
    if row.sampled_tokens is not None:
        yield f"{row.sampled_tokens:.0f} sampled tokens"
    if row.turns is not None:
        yield f"{row.turns:.1f} turns"
    if row.seconds is not None:
        yield f"{row.seconds:.1f} s"
    if row.cost is not None:
        yield f"cost {row.cost:.3g} ({row.cost * row.chains:.3g} in all)"


def _table(rows: Sequence[EvaluationRow], *, titles: Sequence[str] = ()) -> Table:
    """Return a table with each interval below its number, so that it fits 80 columns."""
    ks = [k for k in rows[0].pass_at if k > 1][-1:]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    passes = [name for k in ks for name in (f"pass@{k}", f"pass^{k}")]
    for name in ("tasks", "reward", "solved", *passes):
        table.add_column(name, justify="right", no_wrap=True)
    for title, row in zip(titles or [row.title for row in rows], rows, strict=True):
        cells = [str(row.tasks), estimate_text(row.reward), estimate_text(row.solved, "{:.0%}")]
        for k in ks:
            cells += [estimate_text(each.get(k), "{:.0%}") for each in (row.pass_at, row.pass_hat)]
        table.add_row(Text(shorten(title, 40)), *(cell.replace(" ", "\n", 1) for cell in cells))
    return table


def estimate_text(estimate: Estimate | None, form: str = "{:.2f}") -> str:
    """Format a number with its interval.

    >>> estimate_text(Estimate(value=0.5, interval=None), "{:.0%}")
    '50%'
    """
    if estimate is None:
        return "-"
    found = estimate.interval
    interval = f" {interval_text(found.low, found.high, form)}" if found else ""
    return form.format(estimate.value) + interval
