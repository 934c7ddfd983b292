"""What was sampled is what is recorded, token for token."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.agents.scripts import call, engine

from agentfly import Agent, Context, Limits, SamplingParams, StopReason, tool
from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, ChatTemplate
from agentfly.engines import ScriptedEngine
from agentfly.types import (
    Completion,
    FinishReason,
    OnToken,
    Request,
    SharedTensors,
)


@tool
def shout(text: str) -> str:
    """Say it in capitals.

    Args:
        text: What to say.
    """
    return text.upper() + "!"


class Watching(ScriptedEngine):
    """Remembers every prompt that it was given."""

    def __init__(self, script: list[str]) -> None:
        super().__init__(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
        self.prompts: list[tuple[int, ...]] = []
        self.completions: list[Completion] = []
        self.seeds: list[int] = []

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        self.prompts.append(tuple(prompt_ids))
        self.seeds.append(request.seed.value)
        completion = await super().sample(
            prompt_ids, params, request=request, deadline=deadline, on_token=on_token
        )
        self.completions.append(completion)
        return completion


THREE_TURNS = [call("shout", text="hello"), call("shout", text="again"), "Done."]


async def test_every_prompt_holds_all_that_was_sampled_before_it() -> None:
    model = Watching(THREE_TURNS)
    result = await Agent(model, tools=[shout]).run("Please shout.")
    first, second, third = model.prompts
    one, two, last = model.completions
    assert second[: len(first) + len(one.token_ids)] == first + one.token_ids
    assert third[: len(second) + len(two.token_ids)] == second + two.token_ids
    (stream,) = result.trajectories[0].streams
    assert stream.token_ids == third + last.token_ids
    assert [stream.prompt_ids(i) for i in range(3)] == [first, second, third]


async def test_the_mask_is_on_exactly_where_the_engine_sampled() -> None:
    model = Watching(THREE_TURNS)
    result = await Agent(model, tools=[shout]).run("Please shout.")
    (stream,) = result.trajectories[0].streams
    sampled = [i for i, flag in zip(stream.token_ids, stream.sampled, strict=True) if flag]
    assert sampled == [i for c in model.completions for i in c.token_ids]
    begins = [len(prompt) for prompt in model.prompts]
    expected = {
        place
        for begin, completion in zip(begins, model.completions, strict=True)
        for place in range(begin, begin + len(completion.token_ids))
    }
    assert {place for place, flag in enumerate(stream.sampled) if flag} == expected


async def test_the_stream_reads_as_the_template_would_have_written_it() -> None:
    model = Watching(THREE_TURNS)
    agent = Agent(model, tools=[shout], system_prompt="Be loud.")
    (trajectory,) = (await agent.run("Please shout.")).trajectories
    text = model.tokenizer.decode(trajectory.streams[0].token_ids)
    template = ChatTemplate(CHATML)
    plain = template.render(
        [message.to_dict() for message in trajectory.conversation],
        tools=[shout.spec.to_openai()],
        add_generation_prompt=False,
    )
    assert text == plain.rstrip("\n")
    assert '"shout"' in text
    assert "HELLO!" in text
    assert "Be loud." in text


async def test_a_cut_turn_gets_no_end_token_that_it_did_not_emit() -> None:
    model = Watching(["A long answer that will be cut."])
    agent = Agent(model, sampling=SamplingParams(max_tokens=6))
    (trajectory,) = (await agent.run("Tell me.")).trajectories
    (completion,) = model.completions
    assert completion.finish_reason is FinishReason.LENGTH
    assert trajectory.stop is StopReason.TOKEN_LIMIT
    assert trajectory.streams[0].token_ids[-6:] == tuple(b"A long")
    assert trajectory.streams[0].sampled[-6:] == (True,) * 6


async def test_a_cut_call_is_answered_and_the_turn_closed_as_context() -> None:
    long = call("shout", text="so long that the limit cuts it")
    model = Watching([long, "Sorry."])
    agent = Agent(model, tools=[shout], sampling=SamplingParams(max_tokens=40))
    (trajectory,) = (await agent.run("Please shout.")).trajectories
    (stream,) = trajectory.streams
    first, second = stream.turns
    assert first.results[0].status.invalid
    assert first.completion is not None
    assert len(first.completion.token_ids) == 40
    end = model.tokenizer.special_ids["<|im_end|>"]
    assert second.context_ids[0] == end, "what closes a cut turn is context"


async def test_versions_and_temperature_are_in_the_record() -> None:
    model = Watching(THREE_TURNS)
    await model.publish(SharedTensors(), 5)
    agent = Agent(model, tools=[shout], sampling=SamplingParams(temperature=0.7))
    (trajectory,) = (await agent.run("Please shout.")).trajectories
    for turn in trajectory.turns:
        assert turn.temperature == 0.7
        assert turn.completion is not None
        assert set(turn.completion.version_of_each()) == {5}


async def test_every_turn_and_every_call_has_a_seed_of_its_own_and_always_the_same() -> None:
    @tool
    def draw(context: Context) -> str:
        """Draw a number."""
        drawn.append(context.seed.value)
        return "drawn"

    async def seeds() -> tuple[list[int], list[int]]:
        drawn.clear()
        model = Watching([call("draw") + call("draw"), call("draw"), "Done."])
        await Agent(model, tools=[draw]).run(["Draw."])
        return model.seeds, list(drawn)

    drawn: list[int] = []
    turns, calls = await seeds()
    assert len({*turns, *calls}) == 3 + 3
    again, calls_again = await seeds()
    assert (again, sorted(calls_again)) == (turns, sorted(calls))


async def test_chains_of_a_group_have_seeds_and_ids_of_their_own() -> None:
    result = await Agent(engine(["Hm."])).run([{"id": "t", "question": "Why?"}] * 2, num_chains=3)
    ids = [trajectory.chain_id for trajectory in result.trajectories]
    assert ids == ["t/0/0", "t/0/1", "t/0/2", "t/1/0", "t/1/1", "t/1/2"]
    completions = [trajectory.turns[0].completion for trajectory in result.trajectories]
    assert len({c.logprobs for c in completions if c}) == 6


async def test_the_outcome_does_not_depend_on_how_many_run_at_once() -> None:
    rows = [{"question": f"Shout {i}."} for i in range(5)]
    agent = Agent(engine(THREE_TURNS), tools=[shout])
    alone = await agent.run(rows, num_chains=2, max_concurrent_chains=1, seed=3)
    together = await agent.run(rows, num_chains=2, max_concurrent_chains=10, seed=3)
    assert [replace(t, spans=()) for t in alone.trajectories] == [
        replace(t, spans=()) for t in together.trajectories
    ]
    other = await agent.run(rows, num_chains=2, seed=4)
    assert [t.streams for t in other.trajectories] != [t.streams for t in alone.trajectories]


@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        (Limits(max_turns=2), StopReason.TURN_LIMIT),
        (Limits(max_tokens=90), StopReason.TOKEN_LIMIT),
        (Limits(max_tool_calls=2), StopReason.TOOL_CALL_LIMIT),
        (Limits(context_length=600), StopReason.CONTEXT_LIMIT),
        (Limits(), StopReason.ANSWERED),
    ],
)
async def test_each_limit_has_its_own_stop_reason(limits: Limits, stop: StopReason) -> None:
    model = Watching(THREE_TURNS)
    (trajectory,) = (
        await Agent(model, tools=[shout], limits=limits).run("Please shout.")
    ).trajectories
    assert trajectory.stop is stop
    assert trajectory.error is None
    stream = trajectory.streams[0]
    assert sum(stream.sampled) <= limits.max_tokens
    assert len(stream.token_ids) <= limits.context_length
    assert len(trajectory.turns) <= limits.max_turns
    assert sum(len(turn.results) for turn in trajectory.turns) <= limits.max_tool_calls
