"""How far something has come, told to whoever wants to know; and a bar for the terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, float], None]
"""Called with what is being done, and how much of all the work is done, from 0 to 1."""


def quiet(stage: str, done: float) -> None:
    """Tell nobody."""


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Show a bar on standard error while the body runs.

    ```python
    with progress_bar("smollm2-135m-instruct") as progress:
        fetch("smollm2-135m-instruct", progress=progress)
    ```
    """
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[stage]}"),
    )
    with Bar(*columns, console=Console(file=sys.stderr)) as bar:
        task = bar.add_task(title, total=1.0, stage="")
        yield lambda stage, done: bar.update(task, completed=done, stage=stage)
