"""Messages that a template can't render are rewritten as documented."""

from collections.abc import Sequence

from agentfly.chat import ByteTokenizer, TemplateRenderer, check_template
from agentfly.chat.formats import CallFormat, Reading
from agentfly.types import (
    Completion,
    FinishReason,
    Image,
    Message,
    ToolCall,
    ToolSpec,
)

STRICT = (
    "{% for m in messages %}"
    "{% if m.role not in ('user', 'assistant') %}{{ raise_exception('No ' + m.role) }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
FORGETFUL = (
    "{% for m in messages %}{% if m.role in ('system', 'user', 'assistant') %}"
    "<{{ m.role }}>{{ m.content }}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PARTS = (
    "{% for m in messages %}<{{ m.role }}>"
    "{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}</s>"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
SYSTEM = Message(role="system", content="Be brief.")
USER = Message(role="user", content="Hi")
CALL = ToolCall(id="call_0", name="add", arguments='{"a": 1}')
ADD = ToolSpec(name="add", description="Add.", parameters={"type": "object", "properties": {}})
SCHEMA = (
    '{"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}}'
)
ENDED = Completion(
    token_ids=(256,), logprobs=(0.0,), versions=((0, 1),), finish_reason=FinishReason.STOP
)


def write(calls: Sequence[ToolCall], content: str = "") -> str:
    return content + "".join(f"CALL {call.name} {call.arguments}" for call in calls)


def renderer_of(source: str, **options: object) -> TemplateRenderer:
    form = CallFormat(
        name="test",
        read=lambda text: Reading(content=text),
        write=write,
        **options,  # type: ignore[arg-type]
    )
    return TemplateRenderer(ByteTokenizer(eos_token="</s>"), source, format=form)


def opened(renderer: TemplateRenderer, *messages: Message, tools: tuple[ToolSpec, ...] = ()) -> str:
    return renderer.decode(renderer.open(messages, tools))


def result(content: str, index: int = 0, images: tuple[Image, ...] = ()) -> Message:
    call_id = f"call_{index}"
    return Message(role="tool", content=content, name="add", tool_call_id=call_id, images=images)


def test_a_system_prompt_goes_in_front_of_the_first_question() -> None:
    assert opened(renderer_of(STRICT), SYSTEM, USER) == "<user>Be brief.\n\nHi</s><assistant>"


def test_tools_are_described_with_an_example_in_the_call_format() -> None:
    said = opened(renderer_of(FORGETFUL), SYSTEM, USER, tools=(ADD,))
    assert said == (
        "<system>Be brief.\n\nYou can use these tools, each described by a JSON schema:\n"
        f"{SCHEMA}\nTo use one, write a call with its arguments filled in, like this:\n"
        "CALL add {}</s><user>Hi</s><assistant>"
    )


def test_a_format_that_only_reads_gives_no_example() -> None:
    def reader(text: str) -> Reading:
        return Reading(content=text)

    renderer = TemplateRenderer(ByteTokenizer(eos_token="</s>"), FORGETFUL, format=reader)
    assert opened(renderer, USER, tools=(ADD,)) == (
        f"<system>You can use these tools, each described by a JSON schema:\n{SCHEMA}</s>"
        "<user>Hi</s><assistant>"
    )
    assert check_template(renderer).ok


def test_without_a_system_prompt_one_is_made_for_the_tools() -> None:
    assert opened(renderer_of(FORGETFUL), USER, tools=(ADD,)).startswith("<system>You can use")


def test_a_format_that_no_template_knows_teaches_itself_instead_of_the_template() -> None:
    knowing = "{% if tools %}TOOLS{{ tools[0].function.name }}{% endif %}" + FORGETFUL
    taught = renderer_of(knowing, instructions=lambda tools: f"Act on {tools[0].name}!")
    assert opened(taught, SYSTEM, USER, tools=(ADD,)) == (
        "<system>Be brief.\n\nAct on add!</s><user>Hi</s><assistant>"
    )
    assert opened(renderer_of(knowing), USER, tools=(ADD,)) == "TOOLSadd<user>Hi</s><assistant>"


def test_results_become_one_user_message_whether_a_template_raises_or_forgets() -> None:
    for source in (STRICT, FORGETFUL):
        renderer = renderer_of(source)
        replies = [result("1"), result("2", 1), Message(role="user", content="Go on.")]
        extension = renderer.extend([USER, USER], ENDED, replies, [])
        assert renderer.decode(extension.token_ids) == (
            "<user>Result of the tool add:\n1\n\nResult of the tool add:\n2\n\nGo on.</s>"
            "<assistant>"
        )


def test_earlier_calls_and_results_are_written_out_in_the_first_prompt() -> None:
    asked = Message(role="assistant", content="Let me see. ", tool_calls=(CALL,))
    assert opened(renderer_of(FORGETFUL), USER, asked, result("1")) == (
        '<user>Hi</s><assistant>Let me see. CALL add {"a": 1}</s>'
        "<user>Result of the tool add:\n1</s><assistant>"
    )


def test_users_who_speak_twice_are_joined_only_where_a_template_insists() -> None:
    again = Message(role="user", content="Hello?")
    assert opened(renderer_of(STRICT), USER, again) == "<user>Hi\n\nHello?</s><assistant>"
    assert opened(renderer_of(FORGETFUL), USER, again) == (
        "<user>Hi</s><user>Hello?</s><assistant>"
    )


def test_a_vision_template_gets_its_text_in_parts() -> None:
    renderer = renderer_of(PARTS)
    assert opened(renderer, SYSTEM, USER) == "<system>Be brief.</s><user>Hi</s><assistant>"
    extension = renderer.extend([USER, USER], ENDED, [result("1")], [])
    assert renderer.decode(extension.token_ids) == "<tool>1</s><assistant>"


def test_pictures_are_named() -> None:
    renderer = renderer_of(PARTS)
    reply = result("Look:", images=(Image(data=b"123"), Image(data=b"", media_type="image/gif")))
    extension = renderer.extend([USER, USER], ENDED, [reply], [])
    assert renderer.decode(extension.token_ids) == (
        "<tool>Look:\n[image: image/png, 3 bytes]\n[image: image/gif, 0 bytes]</s><assistant>"
    )


def test_arguments_come_in_the_form_that_a_template_takes() -> None:
    texts = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
        "{{ c.function.name + c.function.arguments }}{% endfor %}</s>{% endfor %}<assistant>"
    )
    asked = Message(role="assistant", tool_calls=(CALL,))
    assert 'add{"a": 1}</s>' in opened(renderer_of(texts), USER, asked, result("1"))
    objects = texts.replace("name + c.function.arguments", "arguments.items()|list")
    assert "[('a', 1)]</s>" in opened(renderer_of(objects), USER, asked, result("1"))
    broken = Message(
        role="assistant", tool_calls=(ToolCall(id="call_0", name="add", arguments='{"a": '),)
    )
    assert "[('arguments', '{\"a\": ')]</s>" in opened(renderer_of(objects), USER, broken)
