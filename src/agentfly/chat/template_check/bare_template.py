"""A renderer for a chat template that comes without its tokenizer.

Text that looks like a special token in the template's source becomes one. Other text is encoded by
a BPE that is trained here on the source, without splitting it into words first: its tokens span
words, line ends and punctuation more than those of any real tokenizer, and so also the boundary
between a turn and what follows it.
"""

import re
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from typing import Any

from agentfly.chat.chat_template import ChatTemplate
from agentfly.chat.template_renderer import FormatLike, OnRewrite, TemplateRenderer
from agentfly.chat.tokenizer_adapters import wrap_tokenizer
from agentfly.errors import ConfigError
from agentfly.runtime.extra import import_extra

BOS, EOS = "<|bos|>", "<|eos|>"
"""Text of the tokens for which a template has a variable."""

_LOOKS_SPECIAL = re.compile(
    r"<\|\"\|>"  # Gemma's quotation mark
    r"|<[|｜][^<>{}'\"\s]{1,40}?[|｜]?>"  # <|im_end|>, <｜User｜>, <|turn>
    r"|<[a-z_]+\|>"  # <turn|>
    r"|</?s>|<(?:bos|eos|pad|sop)>|\[gMASK\]"
    r"|</?[a-z]+:[a-z_]+>"  # <seed:eos>, </mm:think>
    r"|<SPECIAL_\d+>"
    r"|<(?:start_of_turn|end_of_turn|end_of_utterance)>"
    r"|\[/?[A-Z_]{3,}\]"  # [INST]
    r"|\]~!?b[\[\]]|\[e~\[|\]<\][a-z]+\[>\["  # MiniMax
    r"|</?(?:think|tool_call|tool_response|arg_key|arg_value)>"
)

_ANSWER = "zqanswerqz"
_MARK_BEHIND = re.compile(r"\s*(</?[^<>\s]{1,60}>)")

_TEXT_ACROSS_SEAMS = (
    'It rains in Paris.\n\n"Rome"}\n</>\n```\n',
    ".\n<|",
    ">\n\n<",
    '"}}\n</',
    "]\n[",
    " user\nassistant\n",
)


def looks_special(source: str) -> list[str]:
    """Return what looks like a special token in a template's source.

    >>> looks_special("{{ '<|im_start|>' + m.role }}{{ m.content }}<|im_end|></s>")
    ['<|im_start|>', '<|im_end|>', '</s>']
    """
    return list(dict.fromkeys(_LOOKS_SPECIAL.findall(source)))


def bare_renderer(
    source: str,
    *,
    format: FormatLike = None,
    on_rewrite: OnRewrite = "keep",
    template_options: Mapping[str, Any] | None = None,
    date: date | None = None,
) -> TemplateRenderer:
    """Make a renderer for a template alone; `date` is today for it."""
    template = ChatTemplate.with_options(
        source,
        template_options or {},
        named_tokens={"bos_token": BOS, "eos_token": EOS},
        date=date,
    )
    tokenizer = wrap_tokenizer(_trained(source, _written(template)), eos_token=EOS)
    return TemplateRenderer(tokenizer, template, format=format, on_rewrite=on_rewrite)


def _written(template: ChatTemplate) -> tuple[str, ...]:
    """Return what looks special in a rendering: marks that a template puts together of parts.

    The mark behind an answer always counts as special: a turn needs an end.
    """
    for content in (_ANSWER, [{"type": "text", "text": _ANSWER}]):
        messages = [{"role": role, "content": content} for role in ("user", "assistant", "user")]
        try:
            text = template.render(messages, add_generation_prompt=True)
        except ConfigError:
            continue
        ends = (_MARK_BEHIND.match(part) for part in text.split(_ANSWER)[2:3])
        return (*looks_special(text), *(end[1] for end in ends if end))
    return ()


@lru_cache(maxsize=8)
def _trained(source: str, written: tuple[str, ...]) -> Any:
    tokenizers = import_extra("tokenizers", extra="tokenizers", purpose="checking a bare template")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=False
    )
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=800,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    lines = [*source.splitlines(keepends=True), *_TEXT_ACROSS_SEAMS * 20]
    made.train_from_iterator(lines, trainer)
    made.add_special_tokens(list(dict.fromkeys([*looks_special(source), *written, BOS, EOS])))
    return made
