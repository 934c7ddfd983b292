from agentfly import Trajectory, group_reward, reward
from agentfly.rewards import combine, exact_match, format_reward


@reward
def short_and_right(final_response: str, answer: str, trajectory: Trajectory) -> dict[str, float]:
    """Full marks for the answer, less for every extra turn."""
    right = float(answer in final_response)
    turns = len(trajectory.turns)
    return {"reward": right - 0.05 * (turns - 1), "right": right}


@group_reward
def most_common(final_responses: list[str]) -> list[float]:
    """Agree with the majority of the chains."""
    return [float(final_responses.count(r) * 2 > len(final_responses)) for r in final_responses]


scored_by = combine({exact_match(): 1.0, format_reward(tags=["answer"]): 0.2})

assert short_and_right.name == "short_and_right"
assert most_common(["4", "4", "5"]) == [1.0, 1.0, 0.0]
assert [part.name for part in scored_by.weights] == ["exact_match", "format"]
