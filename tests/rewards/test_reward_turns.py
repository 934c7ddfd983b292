import pytest
from tests.rewards.reward_chains import score_of, turn_of

from agentfly.errors import RewardError
from agentfly.rewards import turn_reward
from agentfly.types import Message, Reward, Score, ToolResult, ToolStatus, Trajectory, Turn


async def test_each_turn_is_scored_and_the_sum_is_the_value() -> None:
    @turn_reward
    def brevity(message: Message, limit: int) -> float:
        return limit - len(message.content)

    fits: Reward = brevity
    assert fits.name == "brevity"
    score = await score_of(brevity, ["a", "bbbbb", ""], limit=2)
    assert score == Score(value=1.0 - 3.0 + 2.0, per_turn=(1.0, -3.0, 2.0))


async def test_what_is_on_offer() -> None:
    @turn_reward(name="offer")
    async def offer(
        turn: Turn, t: Turn, m: Message, results: tuple[ToolResult, ...], trajectory: Trajectory
    ) -> float:
        assert t is turn
        assert m is turn.message
        invalid = sum(result.status.invalid for result in results)
        return turn.index + 10 * invalid + 100 * len(trajectory.turns)

    results = (
        ToolResult(observation="no", status=ToolStatus.BAD_ARGUMENTS),
        ToolResult(observation="yes"),
    )
    message = Message(role="assistant", content="calls")
    called = Turn(
        index=0,
        context_ids=(),
        completion=None,
        message=message,
        temperature=1.0,
        results=results,
    )
    score = await score_of(offer, [called, turn_of(1, "done")])
    assert score.per_turn == (210.0, 201.0)


async def test_a_chain_without_turns_is_worth_nothing() -> None:
    @turn_reward
    def one() -> float:
        return 1.0

    assert await score_of(one, []) == Score(value=0.0, per_turn=())


async def test_a_turns_value_must_be_a_number() -> None:
    @turn_reward
    def forgets(turn: Turn) -> float | None:
        return 1.0 if turn.index == 0 else None

    with pytest.raises(RewardError, match="turn reward 'forgets' returned for turn 1 None"):
        await score_of(forgets, ["a", "b"])


async def test_a_method_scores_turns_too() -> None:
    class Scale:
        factor = 3

        @turn_reward
        def weigh(self, message: Message) -> int:
            return self.factor * len(message.content)

    assert (await score_of(Scale().weigh, ["a", "bb"])).per_turn == (3.0, 6.0)
