"""Generated programming tasks: functions over numbers, texts and lists, with hidden tests.

Level 1 is one expression, level 2 needs a thought, level 3 a loop with some state. Some fillings of
every template are held out, and some templates altogether.
"""

from collections.abc import Sequence
from random import Random

from agentfly.environments.code.tasks.list_programs import LIST_PROGRAMS
from agentfly.environments.code.tasks.number_programs import NUMBER_PROGRAMS
from agentfly.environments.code.tasks.program_template import Row
from agentfly.environments.code.tasks.text_programs import TEXT_PROGRAMS

TEMPLATES = (*NUMBER_PROGRAMS, *TEXT_PROGRAMS, *LIST_PROGRAMS)


def program_rows(*, levels: Sequence[int], count: int, held_out: bool, seed: int = 0) -> list[Row]:
    """Return at most `count` tasks, shuffled, each with `tests` and a `solution`."""
    rows = [
        row
        for template in TEMPLATES
        if template.level in levels
        for row in template.rows(held_out=held_out)
    ]
    Random(f"programs {seed}").shuffle(rows)
    return rows[:count]
