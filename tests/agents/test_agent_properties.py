"""Whatever the model samples and the tools answer, the origin of every token is known."""

import asyncio
import json
import re

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentfly import Agent, Limits, SamplingParams, ToolResult, tool
from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, TemplateRenderer
from agentfly.engines import ScriptedEngine, ScriptedTurn
from agentfly.observe import decode_trajectory, encode_trajectory
from agentfly.runtime.journal import plain
from agentfly.training import make_samples, pack
from agentfly.types import Trajectory

TOKENIZER = ByteTokenizer(CHATML_TOKENS)
END = TOKENIZER.special_ids["<|im_end|>"]
RENDERER = TemplateRenderer(TOKENIZER, CHATML)
PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
"""Two halves of one character, which JSON would join."""
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40).filter(
    lambda text: not PAIR.search(text)
)


def call_of(arguments: object) -> list[int]:
    body = json.dumps({"name": "say", "arguments": arguments})
    return [*TOKENIZER.encode(f"<tool_call>\n{body}\n</tool_call>"), END]


ids = st.integers(0, TOKENIZER.vocab_size - 1)
completions = st.one_of(
    st.lists(ids, max_size=30),
    ANY_TEXT.map(lambda text: [*TOKENIZER.encode(text), END]),
    st.just(call_of({"number": 1})),
    st.just(call_of({"number": 1}) + call_of({"number": 2})),
    st.just(call_of({"nonsense": 1})),
    st.lists(ids, max_size=5).map(lambda junk: [*TOKENIZER.encode("<tool_call>\n{"), *junk]),
)


def run(script: list[list[int]], answers: list[str], max_tokens: int) -> tuple[Trajectory, list]:  # type: ignore[type-arg]
    seen: list[tuple[tuple[int, ...], int]] = []

    def model(turn: ScriptedTurn) -> list[int]:
        seen.append((tuple(turn.prompt_ids), turn.request.turn))
        return script[turn.request.turn % len(script)]

    @tool
    async def say(number: int) -> ToolResult:
        """Say something.

        Args:
            number: Which.
        """
        return ToolResult(observation=answers[number % len(answers)])

    agent = Agent(
        ScriptedEngine(model, tokenizer=TOKENIZER),
        renderer=RENDERER,
        tools=[say],
        limits=Limits(max_turns=4),
        sampling=SamplingParams(max_tokens=max_tokens),
    )
    (trajectory,) = asyncio.run(agent.run("Go on.")).trajectories
    return trajectory, seen


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    script=st.lists(completions, min_size=1, max_size=4),
    answers=st.lists(ANY_TEXT, min_size=1, max_size=3),
    max_tokens=st.integers(1, 200),
)
def test_every_token_was_either_put_before_the_model_or_sampled_by_it(
    script: list[list[int]], answers: list[str], max_tokens: int
) -> None:
    trajectory, seen = run(script, answers, max_tokens)
    (stream,) = trajectory.streams
    assert len(seen) == len(stream.turns)
    for position, (prompt, turn) in enumerate(seen):
        assert stream.prompt_ids(position) == prompt
        completion = stream.turns[position].completion
        assert completion is not None
        scripted = script[turn % len(script)][:max_tokens]
        assert list(completion.token_ids) == scripted[: len(completion.token_ids)]
    sampled = [t for t, flag in zip(stream.token_ids, stream.sampled, strict=True) if flag]
    assert sampled == [
        t for turn in stream.turns if turn.completion for t in turn.completion.token_ids
    ]
    context = [t for t, flag in zip(stream.token_ids, stream.sampled, strict=True) if not flag]
    assert context == [t for turn in stream.turns for t in turn.context_ids]

    (sample,) = make_samples(trajectory)
    assert sample.token_ids == stream.token_ids
    assert sample.mask == stream.sampled
    assert [v >= 0 for v in sample.versions] == list(sample.mask)
    [row] = pack([sample, sample], budget=2 * len(sample.token_ids))
    for place in row.places:
        assert tuple(row.token_ids[index] for index in place.indices()) == sample.token_ids
    line = json.dumps(encode_trajectory(trajectory), default=plain)
    assert decode_trajectory(json.loads(line), where="line 1") == trajectory


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(words=st.lists(st.sampled_from([*CHATML_TOKENS, "assistant\n", "hi", " "]), min_size=1))
def test_a_tools_words_never_become_a_special_token(words: list[str]) -> None:
    """Text that spells an end token must stay text, or any web page could end the turn."""
    trajectory, _ = run([call_of({"number": 0}), [72, END]], ["".join(words)], 200)
    (stream,) = trajectory.streams
    second = stream.turns[1].context_ids
    specials = [token for token in second if token >= 256]
    plain, _ = run([call_of({"number": 0}), [72, END]], ["hi"], 200)
    expected = [t for t in plain.streams[0].turns[1].context_ids if t >= 256]
    assert specials == expected
