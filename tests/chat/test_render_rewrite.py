"""Templates that rewrite earlier turns: the stream stays as sampled, or is cut."""

import random
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.types import Completion, Extension, FinishReason, Message, ToolCall

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)
MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
HI = Message(role="user", content="Hi")
AGAIN = Message(role="user", content="Again")


def renderer_of(name: str, on_rewrite: str = "cut") -> TemplateRenderer:
    template = ChatTemplate((FOLDER / "chat_templates" / f"{name}.jinja").read_text())
    tokenizer = ByteTokenizer(MARKS)
    return TemplateRenderer(tokenizer, template, on_rewrite=on_rewrite)  # type: ignore[arg-type]


def extended(
    renderer: TemplateRenderer, sampled: str, said: Message, *replies: Message
) -> Extension:
    ids = tuple(renderer.tokenizer.encode(sampled))
    completion = Completion(
        token_ids=ids,
        logprobs=(-0.1,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )
    return renderer.extend([HI, said], completion, replies, [])


THOUGHT = Message(role="assistant", content="Hello.", reasoning="A greeting.")
SAMPLED = "<think>\nA greeting.\n</think>\n\nHello.<|im_end|>"


def test_a_dropped_thought_cuts_the_stream_and_the_new_prompt_is_whole() -> None:
    renderer = renderer_of("qwen3")
    extension = extended(renderer, SAMPLED, THOUGHT, AGAIN)
    assert extension.new_stream
    assert renderer.decode(extension.token_ids) == (
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
        "<|im_start|>user\nAgain<|im_end|>\n<|im_start|>assistant\n"
    )


def test_by_default_the_stream_stays_as_sampled() -> None:
    renderer = renderer_of("qwen3", on_rewrite="keep")
    extension = extended(renderer, SAMPLED, THOUGHT, AGAIN)
    assert not extension.new_stream
    assert renderer.decode(extension.token_ids) == (
        "\n<|im_start|>user\nAgain<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_turn_without_a_thought_loses_nothing_and_is_not_cut() -> None:
    # As the last message it would be shown with an empty thought, which the model never sampled.
    said = Message(role="assistant", content="Hello.")
    assert not extended(renderer_of("qwen3"), "Hello.<|im_end|>", said, AGAIN).new_stream


def test_a_thought_that_the_template_keeps_is_not_cut() -> None:
    call = ToolCall(id="call_0", name="f", arguments='{"a": 1}')
    said = Message(role="assistant", reasoning="Look.", tool_calls=(call,))
    # Sampled without the space that the template would write: only the spelling differs.
    sampled = (
        "<think>\nLook.\n</think>\n\n"
        '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call><|im_end|>'
    )
    result = Message(role="tool", content="7", name="f", tool_call_id="call_0")
    renderer = renderer_of("qwen3")
    assert not extended(renderer, sampled, said, result).new_stream
    assert extended(renderer, sampled, said, result, AGAIN).new_stream


def test_a_thought_that_is_dropped_from_an_earlier_turn_cuts_too() -> None:
    call = ToolCall(id="call_0", name="f", arguments="{}")
    history = [
        HI,
        Message(role="assistant", reasoning="Look.", tool_calls=(call,)),
        Message(role="tool", content="7", name="f", tool_call_id="call_0"),
        Message(role="assistant", content="Seven."),
    ]
    renderer = renderer_of("qwen3")
    ids = tuple(renderer.tokenizer.encode("Seven.<|im_end|>"))
    completion = Completion(
        token_ids=ids,
        logprobs=(-0.1,) * len(ids),
        versions=((0, len(ids)),),
        finish_reason=FinishReason.STOP,
    )
    extension = renderer.extend(history, completion, [AGAIN], [])
    assert extension.new_stream
    assert "Look." not in renderer.decode(extension.token_ids)
    assert "Seven." in renderer.decode(extension.token_ids)


def test_a_template_that_only_appends_never_cuts() -> None:
    said = Message(role="assistant", content="Hello.")
    for name in ("qwen2_5", "lfm2"):
        assert not extended(renderer_of(name), "Hello.<|im_end|>", said, AGAIN).new_stream
        # Written otherwise than the message says: a matter of spelling, not of the template.
        assert not extended(renderer_of(name), " Hello. <|im_end|>", said, AGAIN).new_stream


def test_a_history_that_the_template_refuses_goes_on_as_sampled() -> None:
    refusing = (
        "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('bad') }}{% endif %}"
        "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    renderer = TemplateRenderer(ByteTokenizer(MARKS), refusing, on_rewrite="cut")
    said = Message(role="assistant", content="bad")
    extension = extended(renderer, "bad<|im_end|>", said, AGAIN)
    assert not extension.new_stream


def conversations(rng: random.Random) -> Iterator[tuple[list[Message], list[Message]]]:
    """Yield a conversation of mixed turns, each time one exchange longer."""
    history = [Message(role="system", content="Be kind."), HI]
    for number in range(10):
        thought = rng.choice([None, "I think so."])
        if rng.random() < 0.6:
            call = ToolCall(id=f"call_{number}", name="f", arguments='{"a": "x"}')
            turn = Message(role="assistant", reasoning=thought, tool_calls=(call,))
            reply = Message(role="tool", content="12", name="f", tool_call_id=call.id)
        else:
            turn = Message(role="assistant", content=f"Said {number}", reasoning=thought)
            reply = Message(role="user", content=f"Asked {number}")
        yield [*history, turn], [reply]
        history += [turn, reply]


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "glm4moe", "gptoss", "nemotron_3_super"])
def test_a_part_of_the_history_gives_what_the_whole_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = renderer_of(name).rewrite_detector
    asked = [c for seed in range(3) for c in conversations(random.Random(seed))]
    by_part = [watch.rewritten(history, replies, []) for history, replies in asked]
    monkeypatch.setattr("agentfly.chat.conversation_writer.representative", list)
    assert by_part == [watch.rewritten(history, replies, []) for history, replies in asked]
    assert name == "qwen2_5" or any(by_part)


def test_a_long_history_is_not_rendered_whole_to_see_whether_it_is_rewritten() -> None:
    renderer = renderer_of("qwen3")
    rendered = list[int]()
    render = renderer.template.render

    def counted(messages: Sequence[Mapping[str, Any]], *args: Any, **kwargs: Any) -> str:
        rendered.append(len(messages))
        return render(messages, *args, **kwargs)

    renderer.template.render = counted  # type: ignore[method-assign]
    history = [HI]
    for _ in range(200):
        history += [Message(role="assistant", content="Hello."), AGAIN]
    history.append(Message(role="assistant", content="Bye."))
    assert not renderer.rewrite_detector.rewritten(history, [AGAIN], [], sampled="Bye.")
    assert max(rendered) < 10
