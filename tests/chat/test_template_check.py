"""The report on a template says what a user needs to know."""

from importlib.util import find_spec
from pathlib import Path

from agentfly.chat import ByteTokenizer, OpensReasoning, TemplateRenderer, check_template

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
    assert lines[0] == "sampled tokens are kept: yes"
    assert lines[1] == "call format: ok; hermes, recognized from the calls that the template writes"
    assert (
        "end of a turn: ok; sampling stops at <|im_end|> (id 257), <|endoftext|> (id 262)" in lines
    )
    assert sum("tokens equal transformers' rendering" in line for line in lines) >= 10
    assert str(report) == "\n".join(lines)


def test_a_template_that_drops_reasoning() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(MARKS), source_of("qwen3")))
    assert report.ok
    assert not report.only_appends
    name = "conversation with reasoning, then another question: ok; "
    line = next(line for line in report.lines() if line.startswith(name))
    assert "because the template rewrites earlier turns; kept as sampled: '" in line
    history = next(line for line in report.lines() if line.startswith("history: ok; "))
    assert "the reasoning of earlier turns is left out" in history


def test_a_template_that_needs_every_fall_back() -> None:
    tokenizer = ByteTokenizer(["<start_of_turn>", "<end_of_turn>"])
    report = check_template(TemplateRenderer(tokenizer, source_of("gemma")))
    assert report.ok
    assert report.fallbacks == (
        "system messages go in front of the first user's message",
        "tools are described in the system prompt",
        "tool calls of earlier turns are written into the content",
        "tool results are given as a user's message",
    )
    used = "; ".join(report.fallbacks)
    assert f"fallbacks: ok; for what the template can't render: {used}" in report.lines()
    assert (report.format_source, report.one_call, report.two_calls) == ("fallback", None, None)
    assert report.fallback_reason == "the template doesn't show an assistant's tool calls"


def test_reasoning_that_the_prompt_opens_is_reported() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(MARKS), source_of("qwen3_5_think")))
    assert report.opens_reasoning is OpensReasoning.ALWAYS
    opens = "the generation prompt opens the reasoning: always"
    line = f"answers and reasoning: ok; parsed back as written; {opens}"
    assert line in report.lines()


def test_a_tokenizer_without_the_templates_tokens_is_reported() -> None:
    report = check_template(TemplateRenderer(ByteTokenizer(), source_of("qwen2_5")))
    assert report.ok
    assert report.end_tokens == ()
    assert "<|im_end|>" in report.stop_strings
