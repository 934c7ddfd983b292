"""The answer, character for character."""

from agentfly.rewards.function_reward import FunctionReward, reward
from agentfly.rewards.gold import gold_answers
from agentfly.types import Task


def exact_match(*, field: str = "answer", name: str = "exact_match") -> FunctionReward[..., bool]:
    r"""Score 1 if the final response is the right answer, character for character, and else 0.

    White space around either is left aside; nothing else is. For answers in prose see
    `qa_exact_match`, for numbers `numeric_match`.

    >>> exact_match()("Paris\n", Task(id="a", messages=(), fields={"answer": "Paris"}))
    True

    Args:
        field: The task's field with the right answer, or with a list of which any is right.
        name: What to call it in parts and metrics.
    """

    @reward(name=name, range=(0, 1))
    def score(final_response: str, task: Task) -> bool:
        golds = gold_answers(task, field)
        return final_response.strip() in {gold.strip() for gold in golds}

    return score
