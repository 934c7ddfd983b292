"""The right number, however it is written."""

import math

from agentfly.errors import ConfigError, RewardError
from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.gold import gold_answers
from agentfly.rewards.marked import marked_answer
from agentfly.rewards.number import Number, last_number
from agentfly.types import Task


def numeric_match(
    *,
    field: str = "answer",
    rel_tol: float = 1e-9,
    abs_tol: float = 0.0,
    name: str = "numeric_match",
) -> FunctionReward[..., bool]:
    r"""Score 1 if the response's number is the right one, and else 0.

    On both sides the last number counts: of what follows the last `####`, else of the last
    `\boxed{}`, else of the whole text. So GSM8K's solutions can be given as they are. How numbers
    are read (`1,000`, `$5`, `50%`, `3/4`, `2e5`) is told in `agentfly.rewards.number`. Two numbers
    are the same as in `math.isclose`: within `abs_tol`, or within `rel_tol` of the larger one. The
    defaults are strict: where answers may be rounded, `0.333` for `1/3`, set `rel_tol=1e-3`.

    >>> gsm8k = Task(id="a", messages=(), fields={"answer": "24 * 50 = 1200. #### 1,200"})
    >>> numeric_match()("That makes $1200.", gsm8k)
    True

    Args:
        field: The task's field with the right answer, or with a list of which any is right.
        rel_tol: The relative difference that is let pass.
        abs_tol: The absolute difference that is let pass.
        name: What to call it in parts and metrics.
    """
    for tolerance in (rel_tol, abs_tol):
        if not 0 <= tolerance < math.inf:
            raise ConfigError(f"a tolerance must be at least 0 and finite, got {tolerance!r}")

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        golds = [_gold(text, field) for text in gold_answers(task, field)]
        said = last_number(marked_answer(final_response))
        return said is not None and any(
            said.is_close(gold, rel_tol=rel_tol, abs_tol=abs_tol) for gold in golds
        )

    return score


def _gold(text: str, field: str) -> Number:
    number = last_number(marked_answer(text))
    if number is None:
        raise RewardError(f"the field {field!r} holds no number: {text!r}")
    return number
