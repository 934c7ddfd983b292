"""A report on the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.observe.console import STYLES, printable
from agentfly.observe.report.compare import Report
from agentfly.observe.report.examples import Example, conversation
from agentfly.types import Trajectory


def show_report(report: Report, console: Console) -> None:
    """Print the table of before and after, and the example chains."""
    table = Table(title=f"{report.num_tasks} held-out tasks", title_justify="left")
    table.add_column("")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right", style="bold")
    for row in report.rows:
        table.add_row(row.name, row.before, row.after)
    console.print(table)
    for example in report.examples:
        _show_example(example, console)


def _show_example(example: Example, console: Console) -> None:
    console.print()
    for line in example.question.splitlines():
        console.print(Text(printable(line), style="bold"), soft_wrap=True)
    for when, chain in (("before", example.before), ("after", example.after)):
        reward = "unscored" if chain.reward is None else f"reward {chain.reward:.2f}"
        console.print(Text(f"  {when}: {reward}, {chain.stop}", style="dim"))
        _show_chain(chain, console)


def _show_chain(chain: Trajectory, console: Console) -> None:
    for said in conversation(chain):
        for line in said.text.splitlines():
            role = (f"    {said.role:<10} ", "dim")
            console.print(Text.assemble(role, (printable(line), STYLES[said.role])), soft_wrap=True)
