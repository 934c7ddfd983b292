"""The tokenizer that the tiny models share: byte-level BPE, digits one by one, ChatML and tools."""

from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from agentfly.models.tiny.conversation import converse
from agentfly.models.tiny.phrase import lexicon, sentence

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

VOCABULARY = 3072
CONTEXT = 4096
PAD, START, END = "<|pad|>", "<|im_start|>", "<|im_end|>"
MARKS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
"""Single tokens, but text all the same: decoding without special tokens keeps them."""

_SENTENCES = 60_000
_CONVERSATIONS = 6_000
_ALWAYS = ("system\n", "user\n", "assistant\n", "tool\n", '{"name": "x", "arguments": {"', '"}}\n')
"""Text that the template writes in every conversation, so that each of its words is one token."""


def train_tokenizer(seed: int = 0) -> "PreTrainedTokenizerBase":
    """Learn the merges from generated text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    one_by_one = pre_tokenizers.Digits(individual_digits=True)
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([one_by_one, as_bytes])
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(MARKS),
        special_tokens=[PAD, START, END],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    backend.train_from_iterator(_texts(Random(seed)), trainer)
    backend.add_tokens([_mark(text) for text in MARKS])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PAD,
        eos_token=END,
        extra_special_tokens=[START],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
        chat_template=chat_template(),
    )


def chat_template() -> str:
    """Return the Jinja source of the chat template."""
    return files(__package__).joinpath("chat_template.jinja").read_text(encoding="utf-8")


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """Load a saved tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _mark(text: str) -> Any:
    from tokenizers import AddedToken

    return AddedToken(text, special=False, normalized=False)


def _texts(rng: Random) -> Iterator[str]:
    """Sentences, every word of the lexicon, and what the conversations say and show."""
    yield from (sentence(rng) for _ in range(_SENTENCES))
    for word in chain.from_iterable(lexicon().values()):
        yield from (f"the {word}", f"the {word}", word, word.capitalize()) * 10
    for _ in range(_CONVERSATIONS):
        conversation = converse(rng)
        yield from (str(message["content"]) for message in conversation.messages)
        yield from (_shown(tool["function"]) for tool in conversation.tools)
    yield from _ALWAYS * _CONVERSATIONS


def _shown(function: dict[str, Any]) -> str:
    """Return a tool's text in the prompt and in a call."""
    parameters = " ".join(f'{{"{name}": "' for name in function["parameters"]["properties"])
    return f"\n{function['name']}(: {function['description']}\n{parameters}"
