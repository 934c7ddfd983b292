"""Parsing a completion: never fails, separates reasoning, spans end at token boundaries."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from agentfly.chat import ByteTokenizer, TemplateRenderer
from agentfly.chat.formats import CallFormat, Reading
from agentfly.chat.reasoning import (
    MARKS,
    OpensReasoning,
    ReasoningMarks,
    Thought,
    mark_at_head,
    opens_reasoning,
    split_reasoning,
    token_spans,
)
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Parsed, ToolCall

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")
SPECIAL = ["<|im_start|>", "<|im_end|>"]


def plain_text(text: str) -> Reading:
    return Reading(content=text)


def renderer_of(source: str = CHATML, reader: object = plain_text) -> TemplateRenderer:
    tokenizer = ByteTokenizer(SPECIAL, eos_token="</s>")
    return TemplateRenderer(tokenizer, source, format=reader)  # type: ignore[arg-type]


def read(renderer: TemplateRenderer, ids: list[int]) -> Parsed:
    completion = Completion(
        token_ids=tuple(ids),
        logprobs=(-0.1,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=FinishReason.STOP,
    )
    return renderer.parse(completion)


def read_text(renderer: TemplateRenderer, text: str) -> Parsed:
    return read(renderer, renderer.tokenizer.encode(text))


def test_only_the_end_token_that_was_sampled_is_taken_off() -> None:
    renderer = renderer_of()
    assert read_text(renderer, "a<|im_end|>").message.content == "a"
    assert read_text(renderer, "a</s>").message.content == "a"
    assert read_text(renderer, "a<|im_end|><|im_end|>").message.content == "a<|im_end|>"
    assert read_text(renderer, "a<|im_end|>b").message.content == "a<|im_end|>b"
    assert read_text(renderer, "a\n ").message.content == "a\n "
    assert read(renderer, []).message.content == ""


def test_all_that_closes_a_turn_is_taken_off_together() -> None:
    wordy = CHATML.replace("<|im_end|>", "<|done|><|im_end|>")
    tokenizer = ByteTokenizer([*SPECIAL, "<|done|>"])
    renderer = TemplateRenderer(tokenizer, wordy, format=plain_text)
    assert read_text(renderer, "a<|done|><|im_end|>").message.content == "a"
    assert read_text(renderer, "a<|im_end|>").message.content == "a"
    assert read_text(renderer, "a<|done|>").message.content == "a<|done|>"


def test_reasoning_is_separated_from_content_with_its_tokens() -> None:
    text = "<think>\ntwo and two\n</think>\n\nFour.<|im_end|>"
    parsed = read_text(renderer_of(), text)
    assert parsed.message.reasoning == "two and two"
    assert parsed.message.content == "Four."
    assert parsed.reasoning_spans == ((0, len("<think>\ntwo and two\n</think>")),)


def test_reasoning_that_never_closes_runs_to_the_end() -> None:
    parsed = read_text(renderer_of(), "<think>é and so on")
    assert parsed.message.reasoning == "é and so on"
    assert parsed.message.content == ""
    assert parsed.reasoning_spans == ((0, len("<think>é and so on".encode())),)


def test_reasoning_that_the_prompt_opened() -> None:
    renderer = renderer_of(THINKING)
    assert renderer.opens_reasoning is OpensReasoning.ALWAYS
    parsed = read_text(renderer, "two\n</think>\n\nFour.")
    assert (parsed.message.reasoning, parsed.message.content) == ("two", "Four.")
    assert parsed.reasoning_spans == ((0, len("two\n</think>")),)
    cut = read_text(renderer, "two and tw")
    assert (cut.message.reasoning, cut.message.content) == ("two and tw", "")
    again = read_text(renderer, "<think>two</think>Four.")
    assert (again.message.reasoning, again.message.content) == ("two", "Four.")


def test_reasoning_is_only_what_stands_in_front() -> None:
    parsed = read_text(renderer_of(), 'Say "<think>x</think>".')
    assert parsed.message.reasoning is None
    assert parsed.message.content == 'Say "<think>x</think>".'
    assert parsed.reasoning_spans == ()


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        ("<think>a</think> <think>b</think>c", "a\nb", "c"),
        ("[THINK]a[/THINK]c", "a", "c"),
        ("<|channel>thought\na<channel|>c", "a", "c"),
        ("<think></think>c", "", "c"),
        ("<thin", None, "<thin"),
        ("a</think>b", None, "a</think>b"),
    ],
)
def test_marks_of_reasoning(text: str, reasoning: str | None, rest: str) -> None:
    thought = split_reasoning(text)
    assert (thought.text, text[thought.end :]) == (reasoning, rest)


@given(
    text=st.lists(st.sampled_from([" ", "\n", "a", "<", "<think>", "</think>", "\n[T]"])).map(
        "".join
    ),
    marks=st.sampled_from([MARKS, (ReasoningMarks("\n[T]", "[/T]"),), (ReasoningMarks("", "a"),)]),
)
def test_a_text_without_a_mark_at_its_head_has_no_reasoning(
    text: str, marks: tuple[ReasoningMarks, ...]
) -> None:
    if not mark_at_head(marks).match(text):
        assert split_reasoning(text, marks=marks) == Thought(text=None, end=0)


def test_a_prompt_that_opens_reasoning_only_at_times_gives_speech_the_benefit() -> None:
    assert split_reasoning("a</think>b", opened=OpensReasoning.SOMETIMES).text == "a"
    assert split_reasoning("plain", opened=OpensReasoning.SOMETIMES).text is None


def test_a_prompt_that_closes_what_it_opens_opens_nothing() -> None:
    assert opens_reasoning("<|im_start|>assistant\n<think>\n")
    assert not opens_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert not opens_reasoning("<|im_start|>assistant\n")


def bpe(*merged: str) -> Tokenizer:
    """Make a byte-level tokenizer that has the given texts as single tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    to_token = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str
    vocab = {c: i for i, c in enumerate(alphabet)}
    merges: list[tuple[str, str]] = []
    for text in merged:
        (token, _), *_ = to_token(text)
        for end in range(2, len(token) + 1):
            if token[:end] not in vocab:
                merges.append((token[: end - 1], token[end - 1]))
                vocab[token[:end]] = len(vocab)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def test_a_token_across_the_edge_of_reasoning_belongs_to_it() -> None:
    renderer = TemplateRenderer(bpe("</think>\n\nF"), CHATML, format=plain_text)
    ids = renderer.tokenizer.encode("<think>x</think>\n\nFour")
    pieces = [renderer.decode([token]) for token in ids]
    assert pieces[8] == "</think>\n\nF"
    assert read(renderer, ids).reasoning_spans == ((0, 9),)


def test_spans_count_tokens_where_characters_are_split_over_several() -> None:
    tokenizer = ByteTokenizer()
    text = "é😀<think>"
    start = text.index("<think>")
    (span,) = token_spans(tokenizer.decode, tokenizer.encode(text), [(start, len(text))])
    assert span == (6, 13)  # é takes two bytes, the face four


def test_stop_strings_cut_the_view_and_not_the_ids() -> None:
    stopping = CallFormat(
        name="tags", read=plain_text, write=lambda calls, content="": "", stop_strings=("</do>",)
    )
    parsed = read_text(renderer_of(reader=stopping), "<do>x</do> and more")
    assert parsed.message.content == "<do>x</do>"


def test_an_end_that_is_spelled_out_is_no_part_of_what_is_said() -> None:
    renderer = TemplateRenderer(ByteTokenizer(), CHATML, format=plain_text)
    assert read_text(renderer, "Hello.<|im_end|>\nmore").message.content == "Hello."


def test_a_reader_that_fails_leaves_the_text_and_a_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(text: str) -> Reading:
        raise KeyError(text)

    own = CallFormat(name="broken", read=broken, write=lambda calls, content="": content)
    with caplog.at_level(logging.ERROR):
        parsed = read_text(renderer_of(reader=own), "<think>a</think>b")
    assert (parsed.message.reasoning, parsed.message.content) == ("a", "b")
    assert "'broken' failed to read a completion" in caplog.text
    assert "KeyError" in caplog.text


def test_a_reader_that_returns_nonsense_leaves_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = CallFormat(name="odd", read=lambda _: None, write=lambda calls, content="": content)  # type: ignore[arg-type,return-value]
    with caplog.at_level(logging.ERROR):
        assert read_text(renderer_of(reader=own), "b").message.content == "b"
    assert "failed to read a completion" in caplog.text


def test_a_plain_function_can_be_a_format(caplog: pytest.LogCaptureFixture) -> None:
    def broken(text: str) -> Reading:
        raise KeyError(text)

    renderer = renderer_of(reader=broken)
    assert renderer.call_format.name == "broken"
    with caplog.at_level(logging.ERROR):
        assert read_text(renderer, "b").message.content == "b"
    assert "'broken' raised" in caplog.text


def test_a_format_that_marks_reasoning_itself_gives_the_spans() -> None:
    def channels(text: str) -> Reading:
        thought, _, said = text.partition("|")
        call = ToolCall(id="call_0", name="f", arguments="{}")
        return Reading(
            content=said, calls=(call,), reasoning=thought, reasoning_spans=((0, len(thought)),)
        )

    parsed = read_text(renderer_of(reader=channels), "hm|well<|im_end|>")
    assert (parsed.message.reasoning, parsed.message.content) == ("hm", "well")
    assert parsed.message.tool_calls[0].name == "f"
    assert parsed.reasoning_spans == ((0, 2),)


def test_a_format_must_be_one() -> None:
    with pytest.raises(ConfigError, match="format must be a name"):
        renderer_of(reader=3)


@given(st.lists(st.integers(min_value=0, max_value=300), max_size=60))
def test_reading_never_raises(ids: list[int]) -> None:
    parsed = read(_TOTAL, ids)
    assert parsed.message.role == "assistant"
    assert all(0 <= start < end <= len(ids) for start, end in parsed.reasoning_spans)


_TOTAL = TemplateRenderer(ByteTokenizer(SPECIAL, eos_token="</s>"), THINKING)


def test_the_mark_around_all_calls_is_no_part_of_unclosed_reasoning() -> None:
    renderer = renderer_of(THINKING, "minimax-m2")
    call = '<invoke name="f">\n<parameter name="a">1</parameter>\n</invoke>\n'
    parsed = read_text(
        renderer, f"I look.\n<minimax:tool_call>\n{call}</minimax:tool_call><|im_end|>"
    )
    assert parsed.message.reasoning == "I look."
    assert [call.name for call in parsed.message.tool_calls] == ["f"]
    assert parsed.message.content == ""
