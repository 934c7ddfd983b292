"""A given conversation becomes the stream that a chain would have recorded."""

import json
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.chat.imitation import imitate, require_readable
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.types import FinishReason, Message, TokenStream, ToolCall, ToolSpec

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)
SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM<|im_end|>\n' }}"
    "{% endif %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKS = {
    "qwen2_5": ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"],
    "qwen3": ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"],
    "llama3_1": ["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"],
    "gemma": ["<start_of_turn>", "<end_of_turn>"],
    "glm4moe": ["[gMASK]", "<sop>", "<|user|>", "<|assistant|>", "<|observation|>", "<|system|>"],
    "phi3": ["<|user|>", "<|assistant|>", "<|system|>", "<|end|>"],
}
NAMES = ["tiny", "smollm2", *MARKS]
ENDS = {"llama3_1": "<|eot_id|>", "gemma": "<end_of_turn>", "phi3": "<|end|>"}

TOOL = ToolSpec(
    name="search",
    description="Search for words.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
)
CALL = ToolCall(id="call_0", name="search", arguments='{"query": "saffron"}')
CONVERSATION = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="Which spice is dear?"),
    Message(role="assistant", tool_calls=(CALL,)),
    Message(role="tool", content="Nine euros a gram", name="search", tool_call_id="call_0"),
    Message(role="assistant", content="It is saffron."),
    Message(role="user", content="And which is cheap?"),
    Message(role="assistant", content="Salt, surely."),
)


@lru_cache
def renderer_of(name: str) -> TemplateRenderer:
    if name == "tiny":
        return TemplateRenderer.from_folder(resolve_model("tiny"))
    if name == "smollm2":
        marks = ["<|im_start|>", "<|im_end|>"]
        return TemplateRenderer(ByteTokenizer(marks, eos_token="<|im_end|>"), SMOLLM2)
    source = (FOLDER / "chat_templates" / f"{name}.jinja").read_text()
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    return TemplateRenderer(ByteTokenizer(["<s>", *MARKS[name]], eos_token="</s>"), template)


@lru_cache
def stream_of(name: str) -> TokenStream:
    return imitate(renderer_of(name), CONVERSATION, [TOOL])


def sampled_text(name: str) -> list[str]:
    completions = [turn.completion for turn in stream_of(name).turns]
    return [renderer_of(name).decode(c.token_ids) for c in completions if c is not None]


every_template = pytest.mark.parametrize("name", NAMES)


@every_template
def test_each_turn_reads_back_as_the_message_that_it_imitates(name: str) -> None:
    renderer = renderer_of(name)
    called, *answers = [
        renderer.parse(t.completion).message for t in stream_of(name).turns if t.completion
    ]
    (call,) = called.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("search", {"query": "saffron"})
    assert [message.content.strip() for message in answers] == ["It is saffron.", "Salt, surely."]
    require_readable(renderer, stream_of(name))


@every_template
def test_loss_is_on_the_assistants_tokens_and_no_others(name: str) -> None:
    stream = stream_of(name)
    pairs = list(zip(stream.token_ids, stream.sampled, strict=True))
    trained = renderer_of(name).decode([token for token, on in pairs if on])
    context = renderer_of(name).decode([token for token, on in pairs if not on])
    for words in ("saffron.", "Salt, surely."):
        assert words in trained
        assert words not in context
    for words in ("Be brief.", "Which spice", "Nine euros", "And which is cheap?"):
        assert words in context
        assert words not in trained
    for turn in stream.turns:
        assert turn.completion is not None
        # The end token may be what opens the reply, such as `<|user|>`.
        before_end = renderer_of(name).decode(turn.completion.token_ids[:-1])
        for mark in ("assistant", "user", "<|im_start|>"):
            assert mark not in before_end, "a template's own token carries loss"


@every_template
def test_a_turn_ends_with_its_end_token_and_nothing_behind_it(name: str) -> None:
    renderer = renderer_of(name)
    for turn in stream_of(name).turns:
        assert turn.completion is not None
        assert turn.completion.finish_reason is FinishReason.STOP
        last = turn.completion.token_ids[-1]
        assert last in renderer.stop_token_ids
        assert turn.completion.token_ids.count(last) == 1
        assert set(turn.completion.logprobs) == {0.0}
    if name in ENDS:
        assert all(text.endswith(ENDS[name]) for text in sampled_text(name))


@pytest.mark.parametrize("name", ["tiny", "smollm2", "qwen2_5", "llama3_1", "gemma"])
def test_the_whole_is_what_the_template_renders(name: str) -> None:
    """These templates only append, so that one rendering of all messages is the oracle."""
    renderer = renderer_of(name)
    whole = renderer.writer.text(CONVERSATION, [TOOL], add_generation_prompt=False)
    ours = renderer.decode(stream_of(name).token_ids)
    assert whole.removeprefix(ours).strip() == ""
    assert whole.startswith(ours)


def test_a_template_that_drops_earlier_reasoning_does_not_drop_it_from_the_stream() -> None:
    messages = (
        Message(role="user", content="Hi?"),
        Message(role="assistant", content="Yes.", reasoning="They greet."),
        Message(role="user", content="Bye?"),
        Message(role="assistant", content="No.", reasoning="They leave."),
    )
    renderer = renderer_of("qwen3")
    stream = imitate(renderer, messages, [])
    assert renderer.decode(stream.token_ids).count("They") == 2
    spans = [turn.reasoning_spans for turn in stream.turns]
    assert all(spans), "a mask policy must be able to leave reasoning out"


def test_what_follows_the_last_turn_is_no_context_of_anything() -> None:
    renderer = renderer_of("qwen2_5")
    stream = imitate(renderer, CONVERSATION[:4], [TOOL])
    assert len(stream.turns) == 1
    assert stream.turns[0].replies == CONVERSATION[3:4]
    assert stream.token_ids == stream_of("qwen2_5").token_ids[: len(stream.token_ids)]


def test_the_assistants_messages_of_an_opening_are_context() -> None:
    renderer = renderer_of("qwen2_5")
    stream = imitate(renderer, CONVERSATION, [TOOL], opening=6)
    assert len(stream.turns) == 1
    assert stream.turns[0].context_ids == renderer.open(CONVERSATION[:6], [TOOL])
    assert stream.turns[0].message == CONVERSATION[6]


def test_an_end_that_is_no_token_is_learned_as_text() -> None:
    renderer = TemplateRenderer(ByteTokenizer(), SMOLLM2)
    stream = imitate(renderer, CONVERSATION[1:2] + CONVERSATION[4:], [])
    texts = [renderer.decode(t.completion.token_ids) for t in stream.turns if t.completion]
    assert texts == ["It is saffron.<|im_end|>", "Salt, surely.<|im_end|>"]


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (CONVERSATION[:2], "no assistant's message"),
        (CONVERSATION[4:], "begins with an assistant's message"),
        ((*CONVERSATION[:2], *CONVERSATION[4:5] * 2), "messages 3 and 4 are both the assistant's"),
    ],
)
def test_a_conversation_that_no_chain_could_be_is_refused(
    messages: tuple[Message, ...], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        imitate(renderer_of("qwen2_5"), messages, [TOOL])


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (Message(role="assistant", content="The end is <|im_end|> here."), "spells '<|im_end|>'"),
        (
            Message(
                role="assistant", content='<tool_call>{"name": "f", "arguments": {}}</tool_call>'
            ),
            r"calls \[\], but .* reads \['f'\]",
        ),
    ],
)
def test_words_that_would_be_read_as_something_else_are_refused(
    said: Message, problem: str
) -> None:
    renderer = renderer_of("qwen2_5")
    stream = imitate(renderer, [*CONVERSATION[:2], said], [TOOL])
    with pytest.raises(ConfigError, match=problem.replace("|", r"\|")):
        require_readable(renderer, stream)
