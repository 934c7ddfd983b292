"""From files of chains and chats to samples: what is kept, what is left out, what carries loss."""

import json
from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from agentfly import Agent, reward
from agentfly.agents.demonstrate import demonstrate
from agentfly.agents.kind import KINDS
from agentfly.agents.source_parts import SourceParts
from agentfly.chat import CHATML, CHATML_TOKENS, ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.chat.imitation import imitate
from agentfly.chat.mask import all_sampled, last_turn_only, valid_calls_only
from agentfly.config.sft_settings import SftDataSettings
from agentfly.engines import ScriptedEngine, ScriptedTurn
from agentfly.environments import Say, Scene, call
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.observe import TrajectoryWriter, compact
from agentfly.tools import calculator
from agentfly.training.learner.trainable_chains import make_samples
from agentfly.training.supervised.best_of import keep_best, sample_best
from agentfly.training.supervised.demonstrations import (
    Demonstrations,
    read_chat_rows,
    read_demonstrations,
)
from agentfly.types import (
    AgentKind,
    Completion,
    FinishReason,
    MaskPolicy,
    Message,
    Score,
    Seed,
    StopReason,
    Task,
    TokenStream,
    ToolCall,
    ToolResult,
    Trajectory,
)

TOOL = calculator.spec
ROW = {"id": "a", "question": "What is 2+3?"}
CALL = ToolCall(id="call_0", name="calculator", arguments='{"expression": "2+3"}')
SAID = (
    Message(role="assistant", tool_calls=(CALL,)),
    Message(role="tool", content="5", name="calculator", tool_call_id="call_0"),
    Message(role="assistant", content="It is 5."),
)


@lru_cache
def tiny() -> TemplateRenderer:
    return TemplateRenderer.from_folder(resolve_model("tiny"))


def byte_renderer() -> TemplateRenderer:
    return TemplateRenderer(ByteTokenizer(CHATML_TOKENS), ChatTemplate(CHATML))


def chain(
    name: str,
    value: float | None = 1.0,
    *,
    renderer: TemplateRenderer | None = None,
    stop: StopReason = StopReason.ANSWERED,
) -> Trajectory:
    """Record a chain of two turns, called `task/visit/number`."""
    task = Task.from_row({"id": name.split("/")[0], "question": "What is 2+3?"})
    stream = imitate(renderer or tiny(), [*task.messages, *SAID], [TOOL])
    called = replace(stream.turns[0], results=(ToolResult(observation="5"),))
    return Trajectory(
        task=task,
        group_id=name.rpartition("/")[0],
        chain_id=name,
        messages=task.messages,
        tools=(TOOL,),
        streams=(TokenStream(turns=(called, *stream.turns[1:])),),
        stop=stop,
        score=None if value is None else Score(value=value),
        error="EnvError: gone" if stop.verdict.failure else None,
    )


def write(path: Path, *chains: Trajectory) -> Path:
    with TrajectoryWriter(path) as writer:
        for one in chains:
            writer.write(one)
    return path


def read(
    base: Path,
    *files: str,
    max_tokens: float = 1000,
    mask: MaskPolicy = all_sampled,
    **data: Any,
) -> Demonstrations:
    return read_demonstrations(
        SftDataSettings(files=files, **{"held_out_share": 0.0, **data}),
        tiny(),
        mask=mask,
        max_tokens=max_tokens,
        seed=Seed(0),
        base=base,
    )


def ids(demonstrations: Demonstrations) -> list[str]:
    return [sample.chain_id for sample in demonstrations.train]


# Best of n


def test_the_best_of_each_group_stay_and_of_equals_the_first() -> None:
    chains = [
        chain("a/0/10", 0.5),
        chain("a/0/2", 0.5),
        chain("a/0/3", 0.1),
        chain("b/0/0", 0.0),
        chain("b/0/1", -1.0),
    ]
    assert [c.chain_id for c in keep_best(chains, 1).trajectories] == ["a/0/2", "b/0/0"]
    kept = keep_best(chains, 2)
    assert [c.chain_id for c in kept.trajectories] == ["a/0/10", "a/0/2", "b/0/0", "b/0/1"]
    assert kept.left_out == Counter({"not among the best of their group": 1})


def test_failed_and_unscored_chains_are_not_chains_with_reward_zero() -> None:
    chains = [
        chain("a/0/0", None),
        chain("a/0/1", None, stop=StopReason.ENV_CRASHED),
        chain("a/0/2", -0.5),
        chain("a/0/3", None, stop=StopReason.CANCELLED),
    ]
    kept = keep_best(chains, 1)
    assert [c.chain_id for c in kept.trajectories] == ["a/0/2"]
    assert kept.left_out == Counter({"failed": 2, "unscored": 1})
    assert [c.chain_id for c in keep_best(chains, min_reward=-1).trajectories] == ["a/0/2"]
    everything = keep_best(chains)
    assert [c.chain_id for c in everything.trajectories] == ["a/0/0", "a/0/2"]


def test_a_threshold_counts_equality_in_and_leaves_bad_groups_out() -> None:
    kept = keep_best([chain("a/0/0", 0.5), chain("b/0/0", 0.49)], 3, min_reward=0.5)
    assert [c.chain_id for c in kept.trajectories] == ["a/0/0"]
    assert kept.left_out == Counter({"with a reward below 0.5": 1})
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        keep_best([], 0)


async def test_sampling_keeps_the_best_chains_and_saves_what_is_read_again(tmp_path: Path) -> None:
    @reward
    def length(final_response: str) -> float:
        return float(len(final_response))

    def script(turn: ScriptedTurn) -> str:
        return ["No.", "Yes, it is.", "Maybe."][int(turn.request.chain_id[-1])]

    engine = ScriptedEngine(script, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, reward=length)
    result = await sample_best(agent, ["Is it?"], num_chains=3)
    (best,) = result.trajectories
    assert best.final_response == "Yes, it is."
    result.save(tmp_path / "best.jsonl")
    assert ids(read(tmp_path, "best.jsonl", retokenize=True)) == [best.chain_id]
    assert not (await sample_best(agent, ["Is it?"], num_chains=3, min_reward=99)).groups
    with pytest.raises(ConfigError, match="give the agent a reward"):
        await sample_best(Agent(engine), ["Is it?"], num_chains=3)


# Chains


def test_a_chain_is_learned_token_for_token_as_it_was_sampled(tmp_path: Path) -> None:
    recorded = chain("a/0/0")
    hot = tuple(replace(turn, temperature=0.0) for turn in recorded.turns)
    recorded = replace(recorded, streams=(TokenStream(turns=hot),))
    write(tmp_path / "chains.jsonl", recorded)
    (sample,) = read(tmp_path, "chains.jsonl").train
    (expected,) = make_samples(recorded)
    assert (sample.token_ids, sample.mask) == (expected.token_ids, expected.mask)
    assert sample.temperature == 1.0, "a greedy chain can't be divided by its temperature"


def test_a_runs_folder_gives_every_step_and_never_held_out_chains(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "trajectories"
    folder.mkdir(parents=True)
    (folder / "advantages_1.jsonl").write_text('{"v": 1, "kind": "credit"}\n')
    (folder / "trial.jsonl").write_text("chains that were begun for the model\n")
    compact(write(folder / "step_2.jsonl", chain("a/0/0"), chain("a/0/1", 0.0)))
    write(folder / "step_10.jsonl", chain("b/0/0", 0.5))
    write(folder / "eval_10.jsonl", chain("secret/0/0"))
    assert ids(read(tmp_path, "run")) == ["a/0/0", "a/0/1", "b/0/0"]
    assert ids(read(tmp_path, "run/trajectories", keep_best=1)) == ["a/0/0", "b/0/0"]
    assert ids(read(tmp_path, "run/trajectories/step_2.jsonl.gz")) == ["a/0/0", "a/0/1"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="holds no trajectories"):
        read(tmp_path, "empty")


def test_chains_of_another_tokenizer_are_refused_or_written_again(tmp_path: Path) -> None:
    write(tmp_path / "foreign.jsonl", chain("a/0/0", renderer=byte_renderer()))
    with pytest.raises(ConfigError, match=r"chain a/0/0 are not those .* data\.retokenize"):
        read(tmp_path, "foreign.jsonl")
    (sample,) = read(tmp_path, "foreign.jsonl", retokenize=True).train
    (own,) = make_samples(chain("a/0/0"))
    assert (sample.token_ids, sample.mask) == (own.token_ids, own.mask)


def test_chains_without_tokens_are_refused_or_written_again(tmp_path: Path) -> None:
    recorded = chain("a/0/0")
    turns = tuple(replace(turn, completion=None, context_ids=()) for turn in recorded.turns)
    write(tmp_path / "server.jsonl", replace(recorded, streams=(TokenStream(turns=turns),)))
    with pytest.raises(ConfigError, match="or there are none"):
        read(tmp_path, "server.jsonl")
    (sample,) = read(tmp_path, "server.jsonl", retokenize=True).train
    assert sample.token_ids == recorded.streams[0].token_ids


def test_a_refused_action_can_be_masked_in_a_chain_that_is_written_again(tmp_path: Path) -> None:
    recorded = chain("a/0/0")
    first, last = recorded.turns
    for place, turns in enumerate(((replace(first, invalid=True), last), (first, last))):
        again = replace(recorded, streams=(TokenStream(turns=turns),))
        write(tmp_path / f"{place}.jsonl", again)
    refused, taken = (
        read(tmp_path, f"{place}.jsonl", retokenize=True, mask=valid_calls_only).train[0]
        for place in range(2)
    )
    assert first.completion
    assert last.completion
    assert sum(refused.mask) == len(last.completion.token_ids)
    assert sum(taken.mask) == len(first.completion.token_ids) + len(last.completion.token_ids)
    assert refused.token_ids == taken.token_ids


@pytest.mark.parametrize("kind", ["react", "code", "tags"])
async def test_a_player_is_imitated_in_the_words_of_the_kind(tmp_path: Path, kind: str) -> None:
    """An engine that says just this records the very same tokens."""

    def expert(scene: Scene) -> Generator[Say, str, None]:
        del scene
        yield call("calculator", expression="2+3")
        yield Say("5")

    spoken = KINDS[kind]()
    (chain_played,) = await demonstrate(_source_parts(spoken), expert, [Task.from_row(ROW)])
    write(tmp_path / "expert.jsonl", chain_played)
    (sample,) = read(tmp_path, "expert.jsonl", retokenize=True, kind=kind).train
    call_format = spoken.format([TOOL])
    assert call_format is not None
    said = [call_format.write([CALL], ""), "5"]
    engine = ScriptedEngine(
        lambda turn: said[turn.request.turn] + "<|im_end|>", tokenizer=tiny().tokenizer
    )
    agent = Agent(engine, renderer=tiny(), tools=[calculator], kind=kind)
    (sampled,) = make_samples((await agent.run(ROW)).trajectories[0])
    assert tiny().decode(sample.token_ids) == tiny().decode(sampled.token_ids)
    assert sum(sample.mask) == sum(sampled.mask)


def _source_parts(kind: AgentKind) -> SourceParts:
    return SourceParts(
        tasks=(),
        eval_tasks=(),
        kind=kind,
        tools=(calculator,),
        reward=None,
        group_reward=None,
        environment=None,
        system_prompt=None,
        max_turns=None,
    )


def test_a_prompt_of_another_template_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorded = chain("a/0/0")
    first = recorded.turns[0]
    longer = replace(first, context_ids=(*tiny().tokenizer.encode("hey\n"), *first.context_ids))
    stream = TokenStream(turns=(longer, *recorded.turns[1:]))
    write(tmp_path / "odd.jsonl", replace(recorded, streams=(stream,)))
    write(tmp_path / "own.jsonl", recorded)
    assert ids(read(tmp_path, "own.jsonl")) == ["a/0/0"]
    assert not caplog.records
    assert read(tmp_path, "odd.jsonl").train[0].token_ids == stream.token_ids
    assert "the prompts of 1 of 1 chains" in caplog.text


def test_what_the_messages_do_not_tell_is_not_written_again(tmp_path: Path) -> None:
    """A turn that was cut short would get an end token that nobody sampled."""
    whole, cut = chain("a/0/0"), chain("b/0/0")
    completion = cut.turns[1].completion
    assert completion is not None
    short = Completion(
        token_ids=completion.token_ids[:2],
        logprobs=(0.0, 0.0),
        versions=((0, 2),),
        finish_reason=FinishReason.LENGTH,
    )
    stream = TokenStream(turns=(cut.turns[0], replace(cut.turns[1], completion=short)))
    limited = chain("c/0/0", stop=StopReason.TOKEN_LIMIT)
    write(tmp_path / "cut.jsonl", whole, replace(cut, streams=(stream,)), limited)
    assert ids(read(tmp_path, "cut.jsonl")) == ["a/0/0", "b/0/0", "c/0/0"]
    anew = read(tmp_path, "cut.jsonl", retokenize=True)
    assert ids(anew) == ["a/0/0"]
    assert anew.left_out == Counter({"cut short or malformed": 2})


def test_examples_in_a_chains_opening_carry_no_loss_when_written_again(tmp_path: Path) -> None:
    recorded = chain("a/0/0", renderer=byte_renderer())
    example = (Message(role="user", content="1+1?"), Message(role="assistant", content="Two."))
    messages = (*example, *recorded.messages)
    write(tmp_path / "shots.jsonl", replace(recorded, messages=messages))
    (sample,) = read(tmp_path, "shots.jsonl", retokenize=True).train
    pairs = list(zip(sample.token_ids, sample.mask, strict=True))
    assert "Two." in tiny().decode([token for token, on in pairs if not on])
    assert "Two." not in tiny().decode([token for token, on in pairs if on])


# Chat rows


def row(**changes: Any) -> dict[str, Any]:
    call = {"function": {"name": "calculator", "arguments": {"expression": "2+3"}}}
    messages = [
        {"role": "user", "content": "What is 2+3?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "5"},
        {"role": "assistant", "content": "It is 5."},
    ]
    return {"messages": messages, "tools": [TOOL.to_openai()], **changes}


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet"])
def test_a_chat_is_learned_as_the_chain_that_it_could_have_been(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"chats.{form}"
    if form == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(
            pyarrow.Table.from_pylist([row(tools=json.dumps(row()["tools"]))]), file
        )
    else:
        file.write_text(json.dumps([row()] if form == "json" else row()) + "\n")
    (sample,) = read(tmp_path, file.name).train
    (own,) = make_samples(chain("a/0/0"))
    assert (sample.token_ids, sample.mask) == (own.token_ids, own.mask)


def test_results_get_the_names_and_ids_of_their_calls() -> None:
    calls = [
        {"function": {"name": "first", "arguments": "{}"}},
        {"id": "x", "function": {"name": "second", "arguments": "{}"}},
    ]
    given = [
        {"role": "user", "content": "Go."},
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "content": "2", "tool_call_id": "x"},
        {"role": "tool", "content": "1"},
        {"role": "assistant", "content": "Done."},
    ]
    (read_row,) = read_chat_rows([{"messages": given}], tiny())
    replies = read_row.turns[0].replies
    assert [(r.tool_call_id, r.name) for r in replies] == [("x", "second"), ("call_0", "first")]


def test_all_bad_rows_are_reported_by_number(tmp_path: Path) -> None:
    bad = [
        row(),
        {"prompt": "2+2?"},
        row(messages=row()["messages"][:1]),
        row(tools="[{"),
        row(tools=[{"type": "function"}]),
        row(tools={"name": "calculator"}),
        row(messages=[*row()["messages"][:1], {"role": "assistant", "content": "<|im_end|>"}]),
    ]
    (tmp_path / "bad.jsonl").write_text("".join(json.dumps(one) + "\n" for one in bad))
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, "bad.jsonl")
    first, *told = str(raised.value).splitlines()
    assert first.startswith("6 rows of bad.jsonl can't be learned from")
    expected = [
        "row 2: a row of chat data has `messages`, got 'prompt'",
        "row 3: the conversation has no assistant's message",
        "row 4: `tools` is a text that is not JSON",
        "row 5: a tool needs a function with a name",
        "row 6: `tools` must be a list",
        "row 7: turn 1 spells '<|im_end|>'",
    ]
    assert [
        line.strip()[: len(start)] for line, start in zip(told, expected, strict=True)
    ] == expected


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*chats\.jsonl"):
        read(tmp_path, "chats.jsonl")


# What is held out, and what is left out


def test_no_task_is_on_both_sides(tmp_path: Path) -> None:
    chains = [chain(f"t{task}/0/{number}") for task in range(10) for number in range(2)]
    write(tmp_path / "chains.jsonl", *chains)
    split = read(tmp_path, "chains.jsonl", held_out_share=0.3)
    sides = [{s.group_id for s in side} for side in (split.train, split.held_out)]
    assert not sides[0] & sides[1]
    assert (len(split.train), len(split.held_out)) == (14, 6)
    assert read(tmp_path, "chains.jsonl", held_out_share=0.3) == split
    assert len(read(tmp_path, "chains.jsonl", held_out_share=0.001).held_out) == 2


def test_held_out_files_take_the_place_of_a_share(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", *[chain(f"t{i}/0/0") for i in range(4)])
    write(tmp_path / "test.jsonl", chain("u/0/0"))
    split = read(tmp_path, "train.jsonl", held_out=["test.jsonl"], held_out_share=0.5)
    assert (len(split.train), [s.chain_id for s in split.held_out]) == (4, ["u/0/0"])


def test_too_long_conversations_are_left_out_and_counted(tmp_path: Path) -> None:
    length = len(chain("a/0/0").streams[0].token_ids)
    write(tmp_path / "chains.jsonl", chain("a/0/0"))
    assert len(read(tmp_path, "chains.jsonl", max_tokens=length).train) == 1
    with pytest.raises(
        ConfigError, match=rf"nothing to learn from.*longer than {length - 1} tokens"
    ):
        read(tmp_path, "chains.jsonl", max_tokens=length - 1)


def test_a_mask_policy_holds_for_demonstrations_too(tmp_path: Path) -> None:
    write(tmp_path / "chains.jsonl", chain("a/0/0"))
    demonstrations = read_demonstrations(
        SftDataSettings(files=("chains.jsonl",), held_out_share=0.0),
        tiny(),
        mask=last_turn_only,
        max_tokens=1000,
        seed=Seed(0),
        base=tmp_path,
    )
    (sample,) = demonstrations.train
    trained = [t for t, on in zip(sample.token_ids, sample.mask, strict=True) if on]
    assert tiny().decode(trained) == "It is 5.<|im_end|>"
