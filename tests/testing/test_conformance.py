"""The checkers accept what keeps its contract, and name what doesn't."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentfly import EnvSpec, Message, Step, Task, tool
from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, TemplateRenderer
from agentfly.engines import ScriptedEngine
from agentfly.rewards import reward
from agentfly.testing import (
    ConformanceError,
    check_engine,
    check_environment,
    check_renderer,
    check_reward,
    check_tool,
    make_context,
)
from agentfly.types import (
    Completion,
    Context,
    Extension,
    OnToken,
    Parsed,
    Request,
    SamplingParams,
    Score,
    Seed,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
)

TOKENIZER = ByteTokenizer(CHATML_TOKENS)
TASK = Task.from_row({"question": "Why?", "answer": "So."})


def hello(**options: object) -> ScriptedEngine:
    return ScriptedEngine(["Hello there, all of you."], tokenizer=TOKENIZER)


async def test_the_scripted_engine_keeps_its_contract() -> None:
    await check_engine(hello(), [1, 2, 3])


class Careless(ScriptedEngine):
    """Ignores the limit on tokens, the deadline, the version and that it was closed."""

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        completion = await hello().sample(
            prompt_ids, replace(params, max_tokens=99), request=request, deadline=1e12
        )
        return replace(completion, token_ids=(id(completion) % 256, *completion.token_ids[1:]))


async def test_everything_that_is_wrong_with_an_engine_is_named_at_once() -> None:
    with pytest.raises(ConformanceError) as caught:
        await check_engine(Careless([], tokenizer=TOKENIZER), [1, 2, 3])
    report = str(caught.value)
    for words in (
        "24 tokens, max 8",
        "on_token saw []",
        "max_tokens=1 gave 24 tokens",
        "a deadline in the past must raise DeadlineError",
        "sampling after close must raise EngineError",
    ):
        assert words in report


def test_the_renderer_keeps_its_contract() -> None:
    check_renderer(TemplateRenderer(TOKENIZER, CHATML))


class Forgetful(TemplateRenderer):
    """Loses the tools, closes every turn twice and can't read nothing."""

    def open(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        return super().open(messages, ())

    def extend(
        self,
        history: Sequence[Message],
        completion: Completion,
        replies: Sequence[Message],
        tools: Sequence[ToolSpec],
    ) -> Extension:
        open_turn = replace(completion, token_ids=(1,), logprobs=(-1.0,), versions=((0, 1),))
        return super().extend(history, open_turn, replies, tools)

    def parse(self, completion: Completion, tools: Sequence[ToolSpec] = ()) -> Parsed:
        return super().parse(replace(completion, token_ids=completion.token_ids[0:1]), tools)


def test_what_is_wrong_with_a_renderer_is_named() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_renderer(Forgetful(TOKENIZER, CHATML))
    assert "the tool is missing from the prompt" in str(caught.value)
    assert "extend repeats the end token" in str(caught.value)
    assert "parsing the tokens" in str(caught.value)


@tool
async def double(number: int) -> int:
    """Double a number.

    Args:
        number: Which.
    """
    return 2 * number


async def test_a_tool_keeps_its_contract() -> None:
    assert (await check_tool(double, {"number": 4})).observation == "8"


class Lax:
    spec = ToolSpec(name="lax", description="", parameters={"type": "string", "required": ["x"]})
    environments = ()

    async def run(self, call: ToolCall, context: Context) -> ToolResult:
        del context
        return ToolResult(observation=call.arguments[::-1])


async def test_what_is_wrong_with_a_tool_is_named() -> None:
    with pytest.raises(ConformanceError) as caught:
        await check_tool(Lax(), {"x": 1})
    for words in ("no description", "not of type `object`", "['x'] are not", "gave status ok"):
        assert words in str(caught.value)


@reward
def right(final_response: str, answer: str) -> bool:
    return final_response == answer


class Moody:
    name = "moody"
    environments = ()
    calls = 0

    async def score(self, trajectory: Trajectory, context: Context) -> Score:
        self.calls += 1
        return Score(value=float(self.calls), per_turn=(1.0, 2.0))


CHAIN = Trajectory(
    task=TASK,
    group_id="g",
    chain_id="g/0",
    messages=TASK.messages,
    stop=StopReason.ANSWERED,
)


async def test_rewards_are_checked_for_being_the_same_twice() -> None:
    assert (await check_reward(right, CHAIN)).value == 0.0
    with pytest.raises(ConformanceError) as caught:
        await check_reward(Moody(), CHAIN)
    assert "scoring twice gave" in str(caught.value)
    assert "2 per-turn values for 0 turns" in str(caught.value)


class Die:
    """Rolls by the seed; with `loaded`, forgets to start over."""

    def __init__(self, *, loaded: bool = False) -> None:
        self.loaded = loaded
        self.rolls = 0

    def reset(self, task: Task, seed: Seed) -> str:
        self.rolls = self.rolls if self.loaded else 0
        self.seed = seed
        return f"ROLL {task.fields['question']}"

    async def step(self, action: str) -> Step:
        await asyncio.sleep(0)
        self.rolls += 1
        return Step(observation=f"{action.upper()} {self.seed.child(self.rolls).uniform():.6f}")

    def close(self) -> None:
        pass


async def test_environments_must_start_over_after_a_reset() -> None:
    await check_environment(EnvSpec(Die), TASK, ["a", "b"])
    with pytest.raises(ConformanceError, match="after a reset"):
        await check_environment(EnvSpec(Die, (("loaded", True),)), TASK, ["a", "b"])


async def test_a_context_for_tests_gives_the_environments_it_was_given() -> None:
    die = Die()
    context = make_context(environments={Die: die})
    assert await context.environments.get(EnvSpec(Die)) is die
    assert await context.environments.get(None) is die
