"""The report on a template says what a person needs to know."""

from importlib.util import find_spec
from pathlib import Path

from agentfly.chat import ByteTokenizer, Opened, TemplateRenderer, check_template

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)
MARKS = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]


def source_of(name: str) -> str:
    return (FOLDER / "chat_templates" / f"{name}.jinja").read_text()


def test_a_template_that_only_appends() -> None:
    tokenizer = ByteTokenizer(MARKS, eos_token="<|endoftext|>")
    report = check_template(TemplateRenderer(tokenizer, source_of("qwen2_5")))
    assert report.ok
    assert report.only_appends
    assert report.fallbacks == ()
    assert report.end_tokens == (("<|im_end|>", 257), ("<|endoftext|>", 262))
    lines = report.lines()
    assert lines[0] == "tokens are the record: yes"
    assert lines[1] == f"call format: {report.call_format}"
    assert lines[2] == "a turn ends with: <|im_end|> (257), <|endoftext|> (262)"
    assert any("tokens equal a plain re-render" in line for line in lines)
    assert str(report) == "\n".join(lines)


def test_a_template_that_drops_reasoning() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(MARKS), source_of("qwen3")))
    assert report.ok
    assert not report.only_appends
    line = next(line for line in report.lines() if line.startswith("reasoning, then another"))
    assert "tokens differ from a plain re-render; a user's reply rewrites the history" in line


def test_a_template_that_needs_every_fall_back() -> None:
    tokenizer = ByteTokenizer(["<start_of_turn>", "<end_of_turn>"])
    report = check_template(TemplateRenderer(tokenizer, source_of("gemma")))
    assert report.ok
    assert [line for line in report.lines() if line.startswith("fall-back")] == [
        "fall-back: system messages go in front of the first user's message",
        "fall-back: tools are described in the system prompt",
        "fall-back: tool calls of earlier turns are written into the content",
        "fall-back: tool results are given as a user's message",
    ]


def test_reasoning_that_the_prompt_opens_is_reported() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(MARKS), source_of("qwen3_5_think")))
    assert report.opens_reasoning is Opened.ALWAYS
    assert "the prompt opens the reasoning: always" in report.lines()


def test_words_that_must_be_changed_are_reported() -> None:
    shouting = (
        "{% for m in messages %}"
        "<|im_start|>{{ m.role }}\n{{ m.content|replace('p', 'P') }}<|im_end|>"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    report = check_template(TemplateRenderer(ByteTokenizer([*MARKS, "<pad>"]), shouting))
    assert report.ok
    assert report.reworded == ("user", "tool")
    assert "a tool's text that spells a special token gets a space" in report.lines()


def test_a_tokenizer_without_the_templates_tokens_is_reported() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(), source_of("qwen2_5")))
    assert report.ok
    assert report.end_tokens == ()
    assert "<|im_end|>" in report.stop_strings
