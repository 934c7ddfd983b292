"""The suffix of a sampled turn, by hand: every case that could lose, double or invent a token."""

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer
from agentfly.errors import ConfigError
from agentfly.types import Completion, FinishReason, Message, ToolCall, ToolSpec

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOL = ToolSpec(name="add", description="Add.", parameters={"type": "object", "properties": {}})
USER = Message(role="user", content="And then?")


def result(text: str, index: int = 0, name: str = "add") -> Message:
    return Message(role="tool", content=text, name=name, tool_call_id=f"call_{index}")


def trl_template(name: str) -> ChatTemplate:
    source = (FOLDER / "chat_templates" / f"{name}.jinja").read_text()
    return ChatTemplate(source, bos_token="<s>", eos_token="</s>")


def renderer_of(template: ChatTemplate | str, *special: str, **options: str) -> TemplateRenderer:
    tokenizer = ByteTokenizer(special, eos_token="</s>")
    # Read as Hermes throughout: a call format of the template's own, not one taught beside it.
    options = {"format": "hermes", **options}
    return TemplateRenderer(tokenizer, template, **options)  # type: ignore[arg-type]


def completed(ids: Sequence[int], reason: FinishReason = FinishReason.STOP) -> Completion:
    versions = ((0, len(ids)),) if ids else ()
    return Completion(
        token_ids=tuple(ids),
        logprobs=(-0.5,) * len(ids),
        versions=versions,
        finish_reason=reason,
    )


def follow(renderer: TemplateRenderer, sampled: str, *replies: Message) -> str:
    """Return the text of what follows a sampled turn."""
    completion = completed(renderer.tokenizer.encode(sampled))
    history = [Message(role="user", content="Hi"), renderer.parse(completion).message]
    extension = renderer.extend(history, completion, replies, [])
    assert not extension.new_stream
    return renderer.decode(extension.token_ids)


@pytest.fixture(scope="module")
def chatml() -> TemplateRenderer:
    return renderer_of(CHATML, "<|im_start|>", "<|im_end|>")


def test_words_for_an_empty_result_may_name_the_call() -> None:
    source = CHATML.replace(
        "{{ m.content }}",
        "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}"
        "{% if m.role == 'tool' and not m.content %}"
        "{{ messages[loop.index0 - 1].tool_calls[0].function.name }} returned nothing"
        "{% endif %}",
    )
    renderer = renderer_of(source, "<|im_start|>", "<|im_end|>")
    call = '<tool_call>{"name": "add", "arguments": {}}</tool_call><|im_end|>'
    assert "add returned nothing" in follow(renderer, call, result(""))
    assert "returned nothing" not in follow(renderer, call, result("7"))


NEXT = "<|im_start|>user\nAnd then?<|im_end|>\n<|im_start|>assistant\n"


def test_after_a_sampled_end_token_only_the_newline_is_added(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "Hello.<|im_end|>", USER) == "\n" + NEXT


def test_a_turn_cut_by_its_length_is_closed_for_the_model(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "Hel", USER) == "<|im_end|>\n" + NEXT


def test_an_end_token_in_the_middle_closes_nothing(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "Hel<|im_end|>\nlo", USER) == "<|im_end|>\n" + NEXT


def test_an_empty_completion_is_closed(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "", USER) == "<|im_end|>\n" + NEXT


def test_a_newline_that_was_sampled_behind_the_end_token_stays_and_is_closed_again(
    chatml: TemplateRenderer,
) -> None:
    assert follow(chatml, "Hello.<|im_end|>\n", USER) == "<|im_end|>\n" + NEXT


def test_another_end_token_ends_the_turn_just_as_well(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "Hello.</s>", USER) == "\n" + NEXT


def test_a_turn_cut_in_the_middle_of_a_tag_keeps_its_ids(chatml: TemplateRenderer) -> None:
    sampled = "<tool_ca"
    assert follow(chatml, sampled, result("?")) == (
        "<|im_end|>\n<|im_start|>tool\n?<|im_end|>\n<|im_start|>assistant\n"
    )


def test_spelling_the_end_token_does_not_end_a_turn(chatml: TemplateRenderer) -> None:
    spelled = [*b"Hello.<|im_end|>"]
    extension = chatml.extend([USER, USER], completed(spelled), [USER], [])
    assert chatml.decode(extension.token_ids) == "<|im_end|>\n" + NEXT


def test_the_ends_of_a_turn_are_found(chatml: TemplateRenderer) -> None:
    special = chatml.tokenizer.special_ids
    assert set(chatml.stop_token_ids) == {special["<|im_end|>"], special["</s>"]}


def test_results_that_a_template_groups_are_grouped() -> None:
    renderer = renderer_of(trl_template("qwen2_5"), "<|im_start|>", "<|im_end|>")
    assert follow(renderer, "…<|im_end|>", result("1"), result("2", 1)) == (
        "\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n"
        "</tool_response><|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_result_and_a_user_message_follow_in_order() -> None:
    renderer = renderer_of(trl_template("qwen2_5"), "<|im_start|>", "<|im_end|>")
    assert follow(renderer, "…", result("1"), USER) == (
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n1\n</tool_response><|im_end|>\n" + NEXT
    )


def test_two_closing_tokens_are_completed_from_where_the_model_stopped() -> None:
    marks = ["<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|END_RESPONSE|>"]
    renderer = renderer_of(trl_template("cohere2"), *marks)
    tail = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>And then?<|END_OF_TURN_TOKEN|>"
    assert follow(renderer, "a", USER).startswith("<|END_RESPONSE|><|END_OF_TURN_TOKEN|>" + tail)
    assert follow(renderer, "a<|END_RESPONSE|>", USER).startswith("<|END_OF_TURN_TOKEN|>" + tail)
    assert follow(renderer, "a<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", USER).startswith(tail)


def test_a_turn_that_ends_with_what_opens_the_reply() -> None:
    # GLM has no end token of its own: the model samples the next speaker's mark, and stops.
    marks = ["<|user|>", "<|assistant|>", "<|observation|>", "<tool_response>", "</tool_response>"]
    marks += ["<tool_call>", "</tool_call>"]  # which close every call, and no turn
    renderer = renderer_of(trl_template("glm4moe"), *marks)
    seen = "\n<tool_response>\n7\n</tool_response><|assistant|>"
    assert follow(renderer, "…<|observation|>", result("7")) == seen
    assert follow(renderer, "…", result("7")) == "<|observation|>" + seen
    # Another end token is no opening: the result still needs its own.
    assert follow(renderer, "…<|user|>", result("7")) == "<|observation|>" + seen
    assert follow(renderer, "…</s>", result("7")) == "<|observation|>" + seen
    assert follow(renderer, "…</s>", USER) == "<|user|>\nAnd then?<|assistant|>"
    ends = renderer.decode(renderer.stop_token_ids)
    assert ends == "<|user|><|observation|></s>"


def test_gemma_continues_its_turn_after_a_tool_response() -> None:
    marks = ["<|turn>", "<turn|>", "<|tool_call>", "<tool_call|>", "<|tool_response>"]
    marks += ["<tool_response|>", '<|"|>']
    renderer = renderer_of(trl_template("gemma4_v5"), *marks)
    seen = 'response:add{value:<|"|>7<|"|>}<tool_response|>'
    call = "<|tool_call>call:add{}<tool_call|>"
    assert follow(renderer, call + "<|tool_response>", result("7")) == seen
    assert follow(renderer, call, result("7")) == "<|tool_response>" + seen
    assert follow(renderer, call + "<turn|>", result("7")) == "<|tool_response>" + seen


def test_a_template_that_shows_calls_only_without_content() -> None:
    marks = ["<｜tool▁outputs▁begin｜>", "<｜end▁of▁sentence｜>", "<｜tool▁call▁end｜>"]
    renderer = renderer_of(trl_template("deepseek_r1_distill"), *marks)
    call = ToolCall(id="call_0", name="add", arguments='{"a": 1}')
    opened = renderer.open([USER, Message(role="assistant", tool_calls=(call,)), result("7")], [])
    assert 'add\n```json\n{"a": 1}\n```<｜tool▁call▁end｜>' in renderer.decode(opened)
    # It closes no single call: the turn ends where the outputs begin.
    assert follow(renderer, "…", result("7")).startswith("<｜tool▁outputs▁begin｜>")


def test_harmony_ends_with_return_or_call_and_not_with_end() -> None:
    marks = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|return|>", "<|call|>"]
    renderer = renderer_of(trl_template("gptoss"), *marks)
    assert renderer.decode(renderer.stop_token_ids) == "<|return|><|call|></s>"
    user = "<|start|>user<|message|>And then?<|end|><|start|>assistant"
    assert follow(renderer, "<|channel|>final<|message|>Hi<|return|>", USER) == user
    assert follow(renderer, "<|channel|>final<|message|>Hi", USER) == "<|end|>" + user
    tool = '<|start|>functions.add to=assistant<|channel|>commentary<|message|>"7"<|end|>'
    assert follow(renderer, "{}<|call|>", result("7")) == tool + "<|start|>assistant"


def test_an_end_that_is_no_token_becomes_a_stop_string() -> None:
    renderer = TemplateRenderer(ByteTokenizer(), CHATML)
    assert renderer.stop_token_ids == ()
    assert "<|im_end|>" in renderer.stop_strings
    assert follow(renderer, "Hello.<|im_end|>", USER) == "\n" + NEXT
    assert follow(renderer, "Hello.<|im", USER) == "_end|>\n" + NEXT
    assert follow(renderer, "Hello.", USER) == "<|im_end|>\n" + NEXT


def sentencepiece() -> Tokenizer:
    """Make a tokenizer that puts a space before text, and whose end token swallows what follows."""
    letters = ["<unk>", "▁", "\n", *"abcdefghijklmnopqrstuvwxyzAT?.|<>_/"]
    model = models.BPE(vocab={c: i for i, c in enumerate(letters)}, merges=[], unk_token="<unk>")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens(
        [AddedToken("<|im_start|>"), AddedToken("<|im_end|>", rstrip=True)]
    )
    return tokenizer


def test_a_suffix_on_its_own_has_the_tokens_it_would_have_in_its_place() -> None:
    inner = sentencepiece()
    renderer = TemplateRenderer(inner, CHATML)
    opened = renderer.open([Message(role="user", content="Hi")], [])
    sampled = renderer.tokenizer.encode("<|im_start|>ok<|im_end|>")[1:]
    extension = renderer.extend([USER, USER], completed(sampled), [USER], [])
    whole = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "And then?"},
    ]
    text = renderer.template.render(whole, add_generation_prompt=True)
    plain = inner.encode(text, add_special_tokens=False).ids
    # No space in front of the suffix, and no newline that the end token would have swallowed.
    assert [*opened, *sampled, *extension.token_ids] == plain


STRICT = (
    "{% set ns = namespace(ids=[]) %}{{ bos_token }}"
    "{% for m in messages %}"
    "{% if m.role == 'user' %}[INST] {{ m.content }}[/INST]"
    "{% elif m.role == 'assistant' and m.tool_calls %}[TOOL_CALLS] ["
    "{% for c in m.tool_calls %}"
    "{% if c.id|length != 9 %}{{ raise_exception('Call IDs have nine characters!') }}{% endif %}"
    "{% set ns.ids = ns.ids + [c.id] %}"
    '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments|tojson }}, '
    '"id": "{{ c.id }}"}{% if not loop.last %}, {% endif %}{% endfor %}]</s>'
    "{% elif m.role == 'assistant' %} {{ m.content }}</s>"
    "{% elif m.role == 'tool' %}"
    "{% if m.tool_call_id not in ns.ids %}{{ raise_exception('Unknown call id!') }}{% endif %}"
    "{% if loop.nextitem is defined and loop.nextitem.role == 'user' %}"
    "{{ raise_exception('After a result the assistant speaks!') }}{% endif %}"
    "[TOOL_RESULTS] {{ m.content|tojson }}[/TOOL_RESULTS]{% endif %}{% endfor %}"
)


def test_a_template_that_wants_matching_call_ids_of_nine_characters() -> None:
    renderer = renderer_of(STRICT, "[INST]", "[/INST]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")
    assert renderer.capabilities.short_ids
    assert follow(renderer, "…</s>", result('a "b"')) == (
        '[TOOL_RESULTS] "a \\"b\\""[/TOOL_RESULTS]'
    )
    assert follow(renderer, "…", result("1"), result("2", 1)) == (
        '</s>[TOOL_RESULTS] "1"[/TOOL_RESULTS][TOOL_RESULTS] "2"[/TOOL_RESULTS]'
    )


def test_an_order_of_roles_that_a_template_refuses_is_worded_otherwise() -> None:
    renderer = renderer_of(STRICT, "[INST]", "[/INST]")
    assert follow(renderer, "…</s>", result("1"), USER) == (
        "[INST] Result of the tool add:\n1\n\nAnd then?[/INST]"
    )


def test_tools_are_shown_again_only_where_the_template_does_so() -> None:
    moving = (
        "{% for m in messages %}"
        "{% if loop.last and tools %}[TOOLS]{{ tools[0].function.name }}{% endif %}"
        "<{{ m.role }}>{{ m.content }}</s>{% endfor %}<assistant>"
    )
    renderer = renderer_of(moving)
    completion = completed(renderer.tokenizer.encode("Hi</s>"))
    extension = renderer.extend([USER, USER], completion, [USER], [TOOL])
    assert renderer.decode(extension.token_ids) == "[TOOLS]add<user>And then?</s><assistant>"
    extension = renderer.extend([USER, USER], completion, [USER], [])
    assert renderer.decode(extension.token_ids) == "<user>And then?</s><assistant>"


def test_a_reply_that_changes_the_templates_words_is_rendered_by_the_template() -> None:
    fussy = CHATML.replace("{{ m.content }}", "{{ m.content or '(nothing)' }}")
    renderer = renderer_of(fussy, "<|im_start|>", "<|im_end|>")
    said = follow(renderer, "…<|im_end|>", result(""))
    assert said == "\n<|im_start|>tool\n(nothing)<|im_end|>\n<|im_start|>assistant\n"


def test_a_reply_that_a_template_refuses_is_put_where_others_go() -> None:
    touchy = (
        "{% for m in messages %}{% if m.content == 'bad' %}{{ raise_exception('!') }}{% endif %}"
    )
    renderer = renderer_of(
        CHATML.replace("{% for m in messages %}", touchy), "<|im_start|>", "<|im_end|>"
    )
    said = follow(renderer, "…<|im_end|>", result("bad"))
    assert said == "\n<|im_start|>tool\nbad<|im_end|>\n<|im_start|>assistant\n"


def test_no_reply_at_all_still_gives_a_prompt(chatml: TemplateRenderer) -> None:
    assert follow(chatml, "Hello.<|im_end|>") == "\n<|im_start|>assistant\n"


def test_a_template_that_can_not_hold_a_conversation_is_refused() -> None:
    with pytest.raises(ConfigError, match="doesn't show a user's message"):
        renderer_of("{{ bos_token }}")
    with pytest.raises(ConfigError, match="One message only"):
        renderer_of(
            "{% if messages|length > 1 %}{{ raise_exception('One message only') }}{% endif %}"
            "{{ messages[0].content }}"
        )
    with pytest.raises(ConfigError, match="exactly once"):
        renderer_of(CHATML.replace("{{ m.content }}", "{{ m.content }}{{ m.content }}"))
    with pytest.raises(ConfigError, match="Never"):
        renderer_of("{{ raise_exception('Never') }}")


def test_on_rewrite_is_one_of_two() -> None:
    with pytest.raises(ConfigError, match="'keep' or 'cut', got 'drop'"):
        renderer_of(CHATML, on_rewrite="drop")


def test_equal_tools_of_other_chains_need_no_new_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains that were read from a file come with tools of their own."""
    renderer = renderer_of(CHATML, "<|im_start|>", "<|im_end|>")
    first = renderer.suffix([result("1")], [TOOL])
    rendered: list[object] = []
    render = ChatTemplate.render

    def counted(self: ChatTemplate, *given: Any, **options: Any) -> str:
        rendered.append(given)
        return render(self, *given, **options)

    monkeypatch.setattr(ChatTemplate, "render", counted)
    assert renderer.suffix([result("1")], [replace(TOOL)]) == first
    assert len(rendered) == 1, "to fill the words in"
    renderer.suffix([result("1")], [replace(TOOL, name="subtract")])
    assert len(rendered) > 2
