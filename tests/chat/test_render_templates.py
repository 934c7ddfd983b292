"""Every template of trl, run through all scenarios with two tokenizers.

The templates are read from the installed package. One tokenizer has a token for each byte; the
other is a BPE trained here without splitting, so that its tokens cross newlines and words.
"""

import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.some_now import some_now
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer, wrap_tokenizer
from agentfly.chat.template_check.check import TemplateReport, check_template
from agentfly.types import Completion, FinishReason, Message
from agentfly.types import Tokenizer as AnyTokenizer

SPEC = find_spec("trl")
FOLDER = Path(
    SPEC.submodule_search_locations[0] if SPEC and SPEC.submodule_search_locations else ""
)
TEMPLATES = sorted(path.stem for path in (FOLDER / "chat_templates").glob("*.jinja"))
BOS, EOS = "<|bos|>", "<|eos|>"

MARKS = re.compile(
    r"<\|\"\|>|<[|｜][^<>{}'\"\s]{1,40}?[|｜]?>|<[a-z_]+\|>|</?s>|\[/?[A-Z_]{3,}\]|\[gMASK\]|<sop>"
    r"|</?(?:think|tool_call|tool_response|arg_key|arg_value)>"
    r"|<(?:start_of_turn|end_of_turn|end_of_utterance)>"
)
"""What these models have as special tokens, as far as their templates spell it out."""

REFUSED = {("llama3_1", "two calls at once"), ("llama3_2", "two calls at once")}
"""They hold one call a turn; a second result is rendered all the same, behind the first."""


ONE_CALL = ("gptoss", "gptoss_training", "llama3_1", "llama3_2")
"""They write the first call of a turn alone, or refuse a second one."""


def source_of(name: str) -> str:
    return (FOLDER / "chat_templates" / f"{name}.jinja").read_text()


def special_tokens(source: str) -> list[str]:
    return [*dict.fromkeys([*MARKS.findall(source), BOS, EOS])]


@lru_cache(maxsize=1)
def trained() -> str:
    """Train a BPE on the templates' own text, in one piece each, and return it as JSON."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    lines = [
        "<|im_end|>\n<|im_start|>user\n<tool_response>\n",
        "\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
        "assistant\n<think>\n",
        "\n</think>\n\n",
        '<tool_call>\n{"name": "look_up", "arguments": {"query": "',
        '"}}\n</tool_call>',
        "Rain, 12°C\n",
        ">\nIt rains in Paris.",
        "<|start_header_id|>assistant<|end_header_id|>\n\nIt",
    ]
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(lines * 5, trainer)
    return str(tokenizer.to_str())


def bpe(special: list[str]) -> AnyTokenizer:
    tokenizer = Tokenizer.from_str(trained())
    tokenizer.add_special_tokens(special)
    return wrap_tokenizer(tokenizer, eos_token=EOS)


@lru_cache(maxsize=200)
def renderer_of(name: str, kind: str) -> TemplateRenderer:
    source = source_of(name)
    special = special_tokens(source)
    tokenizer = ByteTokenizer(special, eos_token=EOS) if kind == "bytes" else bpe(special)
    return TemplateRenderer(tokenizer, ChatTemplate(source, bos_token=BOS, eos_token=EOS))


@lru_cache(maxsize=200)
def report_of(name: str, kind: str) -> TemplateReport:
    return check_template(renderer_of(name, kind))


APPENDING = ["qwen2_5", "qwen3_instruct_2507", "llama3_1", "llama3_2", "gemma3", "phi3", "lfm2_v2"]
REWRITING = ["qwen3", "glm4moe", "deepseekv3", "gptoss", "nemotron_3_super", "lfm2_2_5"]

# The variants for training differ by `{% generation %}` alone.
DIFFERENT = [name for name in TEMPLATES if not name.endswith("_training")]
KINDS = [
    *some_now(((name, "bytes") for name in TEMPLATES), every=2),
    *some_now(((name, "bpe") for name in DIFFERENT), every=8),
]
every_template = pytest.mark.parametrize("name", TEMPLATES)
every_template_and_tokenizer = pytest.mark.parametrize(("name", "kind"), KINDS)


def test_the_bpe_crosses_newlines_and_words() -> None:
    tokens = Tokenizer.from_str(trained()).get_vocab()
    assert any("Ċ" in token.strip("Ċ") for token in tokens)
    assert any("Ġ" in token.strip("Ġ") for token in tokens)


@every_template_and_tokenizer
def test_every_line_of_the_report_holds(name: str, kind: str) -> None:
    report = report_of(name, kind)
    assert report.verdict == "yes", str(report)
    refused = {(name, r.scenario) for r in report.scenarios if r.refused}
    assert refused == {(name, "two calls at once")} & REFUSED


@every_template_and_tokenizer
def test_a_stream_is_as_transformers_renders_it_or_the_report_says_why(
    name: str, kind: str
) -> None:
    for result in report_of(name, kind).scenarios:
        assert bool(result.differing) == bool(result.rewritten)
        assert bool(result.differing) == bool(result.where)


@pytest.mark.parametrize("name", APPENDING)
def test_templates_known_to_append_are_found_to_do_so(name: str) -> None:
    report = report_of(name, "bytes")
    assert report.only_appends
    assert report.rewrites == ()


@pytest.mark.parametrize("name", REWRITING)
def test_templates_known_to_drop_reasoning_are_found_out(name: str) -> None:
    assert "reasoning, then another question" in report_of(name, "bytes").rewrites


@every_template
def test_what_a_template_writes_is_read_back(name: str) -> None:
    report = report_of(name, "bytes")
    if report.format_source == "fallback":
        assert report.one_call is None, "its calls show, so that a format should read them"
        return
    assert report.one_call
    assert report.two_calls or name in ONE_CALL


SAMPLED = [
    pytest.param("It rains.{end}", True, id="ended"),
    pytest.param("It ra", False, id="cut"),
    pytest.param("<tool_ca", False, id="cut in a tag"),
    pytest.param("It{end} rains.", False, id="end token in the middle"),
    pytest.param("", False, id="nothing"),
]


@pytest.mark.parametrize("name", some_now(TEMPLATES, every=4))
@pytest.mark.parametrize(("sampled", "ended"), SAMPLED)
def test_a_turn_is_closed_exactly_once(name: str, sampled: str, ended: bool) -> None:
    renderer = renderer_of(name, "bytes")
    reply = Message(role="user", content="And in Rome?")
    suffix = renderer.suffix([reply])
    end = suffix.end.tokens[0]
    ids = tuple(renderer.tokenizer.encode(sampled.format(end=end)))
    completion = Completion(
        token_ids=ids,
        logprobs=(-0.1,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=FinishReason.STOP if ended else FinishReason.LENGTH,
    )
    follows = renderer.decode(renderer.extend([reply, reply], completion, [reply], []).token_ids)
    rest = "".join(piece.text for piece in suffix.pieces)
    assert follows == (rest if ended else suffix.end.closing + rest)
    assert suffix.end.closing
    assert "And in Rome?" in rest
