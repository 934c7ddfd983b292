r"""Right answers of tasks, and answers marked in a text: `#### 72`, or `\boxed{72}`."""

from agentfly.errors import RewardError
from agentfly.rewards.injection import missing_field
from agentfly.types import Task


def gold_answers(task: Task, field: str) -> list[str]:
    """Return the task's right answers as strings, from one value or a list of alternatives.

    >>> gold_answers(Task(id="a", messages=(), fields={"answer": 42}), "answer")
    ['42']
    """
    golds = listed_answers(task, field)
    if not golds:
        raise RewardError(f"task {task.id!r} has no right answer: its field {field!r} is empty")
    return golds


def listed_answers(task: Task, field: str) -> list[str]:
    """Return the right answers as strings; the list may be empty."""
    if field not in task.fields:
        raise RewardError(missing_field(field, task))
    value = task.fields[field]
    return [_text(v, field) for v in (value if isinstance(value, list | tuple) else [value])]


def _text(value: object, field: str) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    raise RewardError(
        f"the field {field!r} must hold a text, a number or a list of them, "
        f"got {type(value).__name__}: {value!r}"
    )


HASHES = "####"
"""Separator of GSM8K (arXiv:2110.14168) between a worked solution and its answer."""
BOX = r"\boxed{"
"""Mark around the answer in solutions of competition problems."""


def after_hashes(text: str) -> str:
    """Return the text after the last `####`, or the whole text if there is none.

    >>> after_hashes("48/2 = 24, so 48+24 = 72. #### 72")
    ' 72'
    """
    return text.rpartition(HASHES)[2]


def marked_answer(text: str) -> str:
    r"""Return the text after the last `####`, else inside the last `\boxed{}`, else all of it.

    >>> marked_answer(r"So \boxed{\frac{1}{2}}, by step 3.")
    '\\frac{1}{2}'
    """
    if HASHES in text:
        return after_hashes(text)
    _, box, behind = text.rpartition(BOX)
    return behind[: _closing_brace(behind)] if box else text


def _closing_brace(text: str) -> int:
    """Return the index of the brace that closes one opened before the text, or its length."""
    depth = 1
    for place, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return place
    return len(text)
