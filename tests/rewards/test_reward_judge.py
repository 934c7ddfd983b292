import asyncio
import re
from collections.abc import Sequence

import pytest
from tests.rewards.reward_chains import chain_of, task_of

from agentfly.errors import ConfigError, EngineError, RewardError
from agentfly.rewards import llm_judge
from agentfly.testing import make_context
from agentfly.types import Message, SamplingParams, ToolSpec

TASK = task_of(question="2+2?", answer="4")
OPENING = (
    Message(role="system", content="Be terse."),
    Message(role="user", content="What is 2+2?"),
)


class Judge:
    """Chat model that gives scripted replies and keeps the messages it received."""

    def __init__(self, *replies: str | Exception) -> None:
        self.replies = list(replies)
        self.asked: list[list[Message]] = []

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        params: SamplingParams,
        *,
        deadline: float,
    ) -> Message:
        assert not tools
        assert params.temperature == 0.0
        assert 0 < deadline - asyncio.get_running_loop().time() <= 120
        self.asked.append(list(messages))
        said = self.replies.pop(0)
        if isinstance(said, Exception):
            raise said
        return Message(role="assistant", content=said)


async def test_the_judge_sees_rubric_question_answer_and_reference() -> None:
    model = Judge("Right.\nSCORE: 0.75")
    judge = llm_judge(model, "1 if right {really}")
    chain = chain_of("It is 4.", TASK, opening=OPENING)
    context = make_context(TASK)
    score = await judge.score(chain, context)
    assert (judge.name, score.value) == ("llm_judge", 0.75)
    assert context.metadata == {"llm_judge": "Right.\nSCORE: 0.75"}
    [[system, user]] = model.asked
    assert (system.role, user.role) == ("system", "user")
    assert "1 if right {really}" in system.content
    assert "a number from\n0 to 1" in system.content
    found = re.findall(r"<(\w+) (\w{16})>\n(.*)\n</\1 \2>", user.content)
    assert [(title, text) for title, _, text in found] == [
        ("question", "What is 2+2?"),
        ("answer", "It is 4."),
        ("reference", "4"),
    ]
    [mark] = {mark for _, mark, _ in found}
    assert mark in system.content


async def test_the_mark_comes_from_the_chains_seed() -> None:
    marks = []
    for seed in (1, 1, 2):
        model = Judge("SCORE: 1")
        await llm_judge(model, "?").score(chain_of("4", TASK), make_context(TASK, seed=seed))
        marks.append(re.findall(r"<answer (\w+)>", model.asked[0][1].content))
    assert marks[0] == marks[1] != marks[2]


async def test_without_a_field_there_is_no_reference() -> None:
    model = Judge("SCORE: 1")
    await llm_judge(model, "polite?", field=None).score(chain_of("4", TASK), make_context(TASK))
    assert "reference" not in model.asked[0][1].content


async def test_a_missing_reference_is_an_error() -> None:
    judge = llm_judge(Judge(), "right?", field="gold")
    with pytest.raises(RewardError, match="no field 'gold'"):
        await judge.score(chain_of("4", TASK), make_context(TASK))


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("SCORE: 7", 7.0),
        ("The answer says\nSCORE: 10\nbut is wrong.\n\n**Score: 2.5**\n", 2.5),
        ("score:-3", -3.0),
        ("`SCORE: .5`.", 0.5),
        ("__SCORE__: +1", 1.0),
    ],
)
async def test_grades_that_can_be_read(reply: str, grade: float) -> None:
    judge = llm_judge(Judge(reply), "?", grades=(-5.0, 10.0))
    assert (await judge.score(chain_of("4", TASK), make_context(TASK))).value == grade


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "No grade could be read from your last line, ''"),
        ("I would say 7", "No grade could be read from your last line, 'I would say 7'"),
        ("SCORE: 7\nHope that helps!", "your last line, 'Hope that helps!'"),
        ("SCORE: 7/10", "'SCORE: 7/10'"),
        ("SCORE: nan", "'SCORE: nan'"),
        ("SCORE: 11", "11 is not from 0 to 10"),
        ("SCORE: -0.5", "-0.5 is not from 0 to 10"),
    ],
)
async def test_a_reply_that_can_not_be_read_is_sent_back(reply: str, problem: str) -> None:
    model = Judge(reply, "SCORE: 6")
    judge = llm_judge(model, "?", grades=(0, 10))
    assert (await judge.score(chain_of("4", TASK), make_context(TASK))).value == 6.0
    first, second = model.asked
    assert second[: len(first)] == first
    assert [m.role for m in second[len(first) :]] == ["assistant", "user"]
    assert second[-2].content == reply
    assert problem in second[-1].content
    assert "SCORE: 10" in second[-1].content


async def test_after_the_last_try_it_fails() -> None:
    model = Judge("hm", "well", "perhaps", "SCORE: 1")
    judge = llm_judge(model, "?", tries=3, name="strict")
    with pytest.raises(RewardError, match=r"'strict' got no grade.* in 3 tries.*'perhaps'"):
        await judge.score(chain_of("4", TASK), make_context(TASK))
    assert len(model.asked) == 3


async def test_a_failing_engine_stays_an_engine_failure() -> None:
    crash = EngineError("no connection")
    with pytest.raises(EngineError) as raised:
        await llm_judge(Judge(crash), "?").score(chain_of("4", TASK), make_context(TASK))
    assert raised.value is crash


async def test_a_judge_that_never_answers_is_ended() -> None:
    class Silent:
        async def reply(
            self,
            messages: Sequence[Message],
            tools: Sequence[ToolSpec],
            params: SamplingParams,
            *,
            deadline: float,
        ) -> Message:
            await asyncio.sleep(60)
            raise AssertionError

    with pytest.raises(RewardError, match=r"reward 'llm_judge' failed.*did not answer within"):
        await llm_judge(Silent(), "?", timeout=0.05).score(chain_of("4", TASK), make_context(TASK))


def test_mistakes_are_reported_at_once() -> None:
    for grades in ((1.0, 0.0), (0.0, 0.0), (0.0, float("inf"))):
        with pytest.raises(ConfigError, match="two finite numbers, the lesser first"):
            llm_judge(Judge(), "?", grades=grades)
    with pytest.raises(ConfigError, match="at least one try"):
        llm_judge(Judge(), "?", tries=0)
