"""Rewards of search: correct answer, format, and supporting passages found."""

from typing import Literal

from agentfly.environments.search.environment import SearchEnvironment
from agentfly.rewards import CombinedReward, combine, qa_exact_match, qa_f1, reward
from agentfly.rewards.reference_answers import listed_answers
from agentfly.rewards.text_match import normalize_answer
from agentfly.types import EnvSpec, Reward, Task, Trajectory

Correct = Literal["em", "f1"]


def search_reward(
    spec: EnvSpec, *, correct: Correct = "em", format_weight: float = 0.0, hit_weight: float = 0.0
) -> CombinedReward:
    """Score the answer; all parts are reported, also those of weight 0.

    Args:
        spec: The environment of the chain's tools.
        correct: Measure of the answer, `em` (exact match) or `f1` (shared words).
        format_weight: Weight of `format`, which is 1 for an answer without a wrong call before it.
        hit_weight: Weight of `hit`, the share of the supporting passages that were found.
    """
    weights: dict[Reward, float] = {
        qa_exact_match(name="em"): float(correct == "em"),
        qa_f1(name="f1"): float(correct == "f1"),
        well_formed: format_weight,
        retrieval_hit(spec): hit_weight,
    }
    return combine(weights, name="search")


@reward(name="format", range=(0, 1))
def well_formed(trajectory: Trajectory) -> bool:
    """Score 1 for a chain that ends with an answer and has no invalid call."""
    turns = trajectory.turns
    if not turns or turns[-1].message.tool_calls or not trajectory.final_response.strip():
        return False
    return not any(result.status.invalid for turn in turns for result in turn.results)


def retrieval_hit(spec: EnvSpec) -> Reward:
    """Score the share of the task's `support` that was found.

    Without known support, 1 if a passage that was found contains a correct answer.
    """

    @reward(name="hit", env=spec, range=(0, 1))
    def hit(task: Task, env: SearchEnvironment) -> float:
        found = env.found
        support = task.fields.get("support") or ()
        if support:
            return sum(one in found for one in support) / len(support)
        texts = [f" {normalize_answer(passage.headed)} " for passage in found.values()]
        golds = [f" {normalize_answer(gold)} " for gold in listed_answers(task, "answer")]
        return float(any(gold in text for gold in golds for text in texts))

    return hit
