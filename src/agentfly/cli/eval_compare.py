"""Two evaluations compared on the terminal: `agentfly eval --compare A B`."""

import re

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.errors import ConfigError
from agentfly.observe.comparison import Comparison, Difference, compare_groups
from agentfly.observe.estimate import interval_text
from agentfly.observe.evaluation_metrics import Counting
from agentfly.observe.recorded_run import ChainFile, SavedChains, find_chains
from agentfly.types import collect_groups
from agentfly.types.short_text import printable, shorten


def compare_evaluations(one: str, other: str, *, console: Console) -> None:
    """Print the difference of two evaluations, and what it means."""
    files = [_file(name) for name in (one, other)]
    found = compare_groups(
        *(collect_groups(file.read()) for file in files),
        names=(one, other),
        counting=Counting(),
    )
    console.print(_table(found))
    for name, only in zip(found.names, found.only, strict=True):
        if only:
            console.print(Text(printable(f"{only} tasks are in {name} alone, and left out")))
    console.print(Text(printable(found.sentence)), soft_wrap=True)


def _file(name: str) -> ChainFile:
    """Return the chains of an evaluation: a folder, `run@step`, or a file of saved chains."""
    named = re.fullmatch(r"(?P<run>.+)@(?P<step>\d+)", name)
    run = find_chains(named["run"] if named else name)
    if isinstance(run, SavedChains):
        return run.chain_file(None)
    file = run.chain_file(int(named["step"]) if named else None, held_out=True)
    if not file.finished:
        raise ConfigError(
            f"the evaluation {name} was not finished: continue it with --resume, then compare"
        )
    return file


def _table(found: Comparison) -> Table:
    table = Table(box=SIMPLE_HEAD)
    for name in ("", "difference", "better", "worse", "equal"):
        table.add_column(name, justify="right" if name else "left")
    for name, mean in zip(found.names, found.means, strict=True):
        table.add_row(Text(shorten(name, 60)), f"{mean:.3f}")
    for title, difference in (("reward", found.reward), ("solved", found.solved)):
        equal = difference.tasks - difference.better - difference.worse
        counts = (difference.better, difference.worse, equal)
        table.add_row(title, _text(difference), *map(str, counts))
    return table


def _text(difference: Difference) -> str:
    found = difference.interval
    ends = f" {interval_text(found.low, found.high, '{:+.3f}')}" if found else ""
    return f"{difference.value:+.3f}{ends}"
