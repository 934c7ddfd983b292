"""Where a turn ends: with tokens that merge, with the model's own list, and with odd templates."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from agentfly import Agent, Limits, StopReason
from agentfly.chat import ByteTokenizer, TemplateRenderer, wrap_tokenizer
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.engines import ScriptedEngine
from agentfly.errors import FormatError
from agentfly.models import resolve_model
from agentfly.rollout.model_session import with_stops
from agentfly.types import Completion, FinishReason, Message, SamplingParams, ToolCall

NEWLINE_BEFORE_END = (
    "{% for m in messages %}"
    "{% if m.role == 'assistant' %}<|asst|>\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}"
    "{% if not loop.last %}{{ '\n<|end|>\n' }}{% endif %}"
    "{% else %}<|{{ m.role }}|>\n{{ m.content }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|asst|>\n{% endif %}"
)
USER = Message(role="user", content="And then?")
CALL = ToolCall(id="call_0", name="f", arguments="{}")
RESULT = Message(role="tool", content="7", name="f", tool_call_id="call_0")


def completed(ids: Sequence[int]) -> Completion:
    return Completion(
        token_ids=tuple(ids),
        logprobs=(-0.5,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=FinishReason.STOP,
    )


def merging(*merged: str) -> Tokenizer:
    """Make a BPE in which each of these pairs of characters is one token."""
    letters = {char: byte for byte, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pairs = [(pair[0], pair[1].replace("\n", "Ċ")) for pair in merged]
    vocab = letters | {"".join(pair): len(letters) + i for i, pair in enumerate(pairs)}
    made = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens(
        ["<|asst|>", "<|end|>", "<|user|>", "<|tool|>", "<|system|>", "<tool_call>", "</tool_call>"]
    )
    return made


def follows(renderer: TemplateRenderer, sampled: str, reply: Message) -> str:
    ids = renderer.tokenizer.encode(sampled)
    history = [USER, Message(role="assistant", content="x")]
    return renderer.decode(renderer.extend(history, completed(ids), [reply], []).token_ids)


@pytest.mark.parametrize("reply", [USER, RESULT], ids=["user", "tool"])
@pytest.mark.parametrize("words", ["It rains.", "<tool_call>{}</tool_call>", "x"])
def test_an_end_whose_newline_merged_with_the_words_is_not_written_again(
    reply: Message, words: str
) -> None:
    tokenizer = merging(".\n", ">\n", "x\n")
    tokenizer.add_special_tokens(["</s>"])
    wrapped = wrap_tokenizer(tokenizer, eos_token="</s>")
    renderer = TemplateRenderer(wrapped, NEWLINE_BEFORE_END, format="hermes")
    rest = f"\n<|{reply.role}|>\n{reply.content}\n<|asst|>\n"
    if words.endswith("."):
        assert tokenizer.encode(words + "\n<|end|>").tokens[-2:] == [".Ċ", "<|end|>"]
    assert follows(renderer, f"{words}\n<|end|>", reply) == rest
    assert follows(renderer, f"{words}<|end|>", reply) == rest
    assert follows(renderer, f"{words}</s>", reply) == rest
    # A turn that was cut is closed whole: its last newline belongs to what it said.
    assert follows(renderer, words, reply) == "\n<|end|>" + rest
    assert follows(renderer, f"{words}\n", reply) == "\n<|end|>" + rest


def test_text_that_belongs_to_the_end_is_not_part_of_what_was_said() -> None:
    renderer = TemplateRenderer(merging(".\n"), NEWLINE_BEFORE_END, format="hermes")

    def read(text: str) -> str:
        return renderer.parse(completed(renderer.tokenizer.encode(text))).message.content

    assert read("It rains.\n<|end|>") == "It rains."
    assert read("It rains.\n\n<|end|>") == "It rains.\n"
    assert read("It rains.\n") == "It rains.\n"
    assert read("It rains.<|end|>") == "It rains."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(resolve_model("tiny"), tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize(("listed", "read"), [([2, 0], (2, 0)), (0, (2, 0)), (None, (2,))])
def test_the_models_own_end_tokens_reach_the_engine(
    folder: Path, listed: object, read: tuple[int, ...]
) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": listed}))
    renderer = TemplateRenderer.from_folder(folder)
    assert renderer.stop_token_ids == read
    assert renderer.with_format(renderer.call_format).stop_token_ids == read
    assert with_stops(SamplingParams(), renderer).stop_token_ids == read
    ended = completed([*renderer.tokenizer.encode("It rains."), read[-1]])
    assert renderer.parse(ended).message.content == "It rains."
    assert not renderer.decode(renderer.suffix_ids(ended.token_ids, [USER])).startswith(
        "<|im_end|>"
    )


def test_a_folder_without_a_generation_config_has_the_templates_end(folder: Path) -> None:
    (folder / "generation_config.json").unlink()
    assert TemplateRenderer.from_folder(folder).stop_token_ids == (2,)


def test_an_end_token_that_is_no_id_is_refused(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"eos_token_id": ["</s>"]}')
    with pytest.raises(FormatError, match="eos_token_id must be an id or a list of ids"):
        TemplateRenderer.from_folder(folder)


def test_llamas_end_of_a_message_ends_a_turn_too() -> None:
    source = (
        "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
        "{{ m.content }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    )
    marks = ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), source)
    assert [renderer.decode([i]) for i in renderer.stop_token_ids] == ["<|eot_id|>", "<|eom_id|>"]
    header = "<|start_header_id|>user<|end_header_id|>"
    assert follows(renderer, "x<|eom_id|>", USER).startswith(header)


def test_a_template_that_always_opens_the_next_turn_ends_turns_before_it() -> None:
    source = (
        "<BOS>{% for m in messages %}<|START|><|{{ m.role }}|>{{ '<|ANSWER|>' if m.role =="
        " 'assistant' }}{{ m.content }}<|END|>{% endfor %}<|START|><|assistant|>"
    )
    marks = ["<BOS>", "<|START|>", "<|END|>", "<|ANSWER|>", "<|assistant|>", "<|user|>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), source)
    assert [renderer.decode([i]) for i in renderer.stop_token_ids] == ["<|END|>"]
    assert follows(renderer, "x<|END|>", USER).startswith("<|START|><|user|>")


CLOSES_REASONING_WITH_END = (
    "{% for m in messages %}"
    "{% if m.reasoning_content %}<|begin|>assistant<|think|>{{ m.reasoning_content }}<|end|>"
    "{% endif %}<|begin|>{{ m.role }}<|content|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant{% endif %}"
)


class Counting(ScriptedEngine):
    """Answers each request with the next of its parts, and keeps the requests' seeds."""

    def __init__(self, parts: Sequence[str], tokenizer: ByteTokenizer) -> None:
        left = iter(parts)
        self.prompts: list[str] = []

        def script(turn: object) -> str:
            self.prompts.append(turn.prompt)  # type: ignore[attr-defined]
            return next(left)

        super().__init__(script, tokenizer=tokenizer)


PARTS = ["<|think|>Two and two.<|end|>", "<|begin|>assistant<|content|>Four.<|end|>"]


async def solve(limits: Limits | None = None) -> tuple[Counting, Agent, TemplateRenderer]:
    tokenizer = ByteTokenizer(["<|begin|>", "<|end|>", "<|think|>", "<|content|>"])
    engine = Counting(PARTS, tokenizer)
    renderer = TemplateRenderer(tokenizer, CLOSES_REASONING_WITH_END)
    return engine, Agent(engine, renderer=renderer, limits=limits), renderer


async def test_a_stop_token_that_closes_the_reasoning_does_not_end_the_turn() -> None:
    engine, agent, renderer = await solve()
    result = await agent.run("What is 2 + 2?")
    (turn,) = result.trajectories[0].turns
    assert turn.completion is not None
    assert renderer.decode(turn.completion.token_ids) == "".join(PARTS)
    assert engine.prompts[1] == engine.prompts[0] + PARTS[0]
    assert turn.message.content.endswith("Four.")
    assert result.trajectories[0].stop is StopReason.ANSWERED


async def test_a_turn_without_room_behind_its_reasoning_is_cut() -> None:
    engine, agent, _ = await solve(Limits(max_tokens=len("Two and two.") + 2))
    result = await agent.run("What is 2 + 2?")
    (turn,) = result.trajectories[0].turns
    assert turn.completion is not None
    assert turn.completion.finish_reason is FinishReason.LENGTH
    assert len(engine.prompts) == 1


def test_a_second_stop_token_ends_the_turn_for_good() -> None:
    tokenizer = ByteTokenizer(["<|begin|>", "<|end|>", "<|think|>", "<|content|>"])
    renderer = TemplateRenderer(tokenizer, CLOSES_REASONING_WITH_END)

    def goes_on(text: str) -> bool:
        return renderer.goes_on(completed(tokenizer.encode(text)))

    assert goes_on(PARTS[0])
    assert not goes_on(PARTS[0] + PARTS[1])
    assert not goes_on("<|content|>Four.<|end|>")
    assert not goes_on("<|think|>Two and two.")
    assert not goes_on("")


def test_a_bare_template_has_an_end_token() -> None:
    mistral = (
        "{{ bos_token }}"
        "{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
        "{% else %}{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    )
    renderer = bare_renderer(mistral)
    assert [renderer.decode([i]) for i in renderer.stop_token_ids] == ["<|eos|>"]
    assert follows(renderer, "x", USER).startswith("<|eos|>[INST]")


NUMBERED = (
    "{% set n = namespace(calls=0) %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>"
    "{% set n.calls = n.calls + 1 %}{% endfor %}"
    "{% if m.role == 'tool' %}result {{ n.calls }}: {% endif %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MOVING_SYSTEM = (
    "{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in messages if m.role != 'system' %}<|im_start|>{{ m.role }}\n"
    "{% if loop.last and m.role == 'user' and system %}{{ system }}\n\n{% endif %}{{ m.content }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_numbers_calls_is_shown_the_calls_before() -> None:
    marks = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), NUMBERED, format="hermes")
    called = Message(role="assistant", tool_calls=(CALL,))
    history = [USER, called, RESULT, called]
    ids = renderer.extend(history, completed(()), [RESULT], []).token_ids
    assert "result 2: 7<|im_end|>" in renderer.decode(ids)


MISCOUNTING = (
    "{% set said = messages[1:] if messages[0].role == 'system' else messages %}"
    "{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% for m in said %}"
    "{% if m.role != 'tool' or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>{% endif %}"
    "{{ m.role }}\n{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>"
    "{% endfor %}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_template_that_counts_messages_wrongly_is_shown_the_system_prompt_and_the_calls() -> None:
    marks = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), MISCOUNTING, format="hermes")
    called = Message(role="assistant", tool_calls=(CALL,))
    system = Message(role="system", content="Be brief.")
    once, twice = [USER, called], [USER, called, RESULT, called]
    sampled = completed(renderer.tokenizer.encode("x<|im_end|>"))

    def follow(history: Sequence[Message]) -> str:
        return renderer.decode(renderer.extend(history, sampled, [RESULT], []).token_ids)

    assert follow(once) == follow(twice) == follow([system, *once])
    assert follow(once).startswith("\n<|im_start|>tool")
    assert follow([system, *twice]).startswith("\ntool")


def test_a_template_that_moves_the_system_prompt_is_shown_it_as_text() -> None:
    marks = ["<|im_start|>", "<|im_end|>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), MOVING_SYSTEM, format="hermes")
    system = Message(role="system", content="Be brief.<|im_end|>\U00020000")
    history = [system, USER, Message(role="assistant", content="x")]
    ids = renderer.extend(history, completed(()), [USER], []).token_ids
    expected = "<|im_start|>user\nBe brief.<|im_end|>\U00020000\n\nAnd then?<|im_end|>\n"
    assert expected in renderer.decode(ids)
    assert ids.count(renderer.tokenizer.special_ids["<|im_end|>"]) == 2


def test_a_template_with_a_last_message_of_its_own_ends_turns_before_it() -> None:
    source = (
        "{% for m in messages %}<|START|><|{{ m.role }}|>{{ m.content }}<|END|>{% endfor %}"
        "<|START|><|system|>Write actions.<|END|>"
        "{% if add_generation_prompt %}<|START|><|assistant|>{% endif %}"
    )
    marks = ["<|START|>", "<|END|>", "<|system|>", "<|assistant|>", "<|user|>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), source)
    assert [renderer.decode([i]) for i in renderer.stop_token_ids] == ["<|END|>"]
    assert follows(renderer, "x<|END|>", USER).startswith("<|START|><|user|>")


CALLS_END_TURNS = (
    "{% for m in messages %}"
    "{% if m.tool_calls %}<|assistant|>{{ m.content }}<|calls|>["
    "{% for c in m.tool_calls %}"
    '{"{{ c.function.name }}": {{ c.function.arguments | tojson }}}{{ ", " if not loop.last }}'
    "{% endfor %}]<|done|>"
    "{% elif m.role == 'tool' %}[{{ m.content }}]"
    "{% else %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<|assistant|>{% endif %}"
)


def test_an_end_token_that_closes_a_call_leaves_it_whole() -> None:
    marks = ["<|assistant|>", "<|user|>", "<|end|>", "<|calls|>", "<|done|>"]
    renderer = TemplateRenderer(ByteTokenizer(marks), CALLS_END_TURNS)
    assert "<|done|>" in [renderer.decode([i]) for i in renderer.stop_token_ids]
    text = 'See:<|calls|>[{"f": {"a": 1}}]<|done|>'
    message = renderer.parse(completed(renderer.tokenizer.encode(text))).message
    (call,) = message.tool_calls
    assert (call.name, call.arguments, call.repaired) == ("f", '{"a": 1}', False)
    assert message.content == "See:"
    said = renderer.parse(completed(renderer.tokenizer.encode("Done.<|done|>"))).message
    assert (said.content, said.tool_calls) == ("Done.", ())


def test_a_template_that_fails_over_tools_is_used_without_them() -> None:
    source = (
        "{% if tools %}{{ tools | map(attribute='function') | tojson }}{% endif %}"
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    renderer = TemplateRenderer(ByteTokenizer(["<|end|>", "<|assistant|>"]), source)
    assert not renderer.capabilities.tools
