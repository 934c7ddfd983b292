"""Conversations as token rows, with loss on what the assistant itself would sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from agentfly.models.tiny.conversation import Conversation, converse, easy
from agentfly.models.tiny.tokenizer import END, START

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One conversation a row, padded on the right: causal attention then needs no mask.

    They are not packed into longer rows: where attention has little to look at, a small model
    finds what to copy several times sooner.
    """

    ids_NT: "Tensor"
    learned_NT: "Tensor"
    """True on the tokens of assistant turns, the end token included."""
    tokens: int
    """Without the padding."""


def batches(
    tokenizer: "PreTrainedTokenizerBase", *, rows: int, easy_tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield batches without end: easy conversations first, then a growing share of full ones.

    After `easy_tokens` the full ones begin, and after as many again they are all there is.
    """
    rng, past = Random(seed), 0
    while True:
        share = 2.0 - past / easy_tokens
        drawn = [easy(rng) if rng.random() < share else converse(rng) for _ in range(rows)]
        batch = _batch(drawn, tokenizer)
        yield batch
        past += batch.tokens


def learned_tokens(
    ids: Sequence[int], unlearned: frozenset[int], tokenizer: "PreTrainedTokenizerBase"
) -> list[bool]:
    """Tell for each token whether an assistant sampled it, in a turn that is to be learned."""
    header, end = tokenizer.encode(f"{START}assistant\n"), tokenizer.convert_tokens_to_ids(END)
    learned, turn, speaking = [], -1, False
    for position, token in enumerate(ids):
        learned.append(speaking and turn not in unlearned)
        if token == end:
            speaking = False
        elif ids[position + 1 - len(header) : position + 1] == header:
            speaking, turn = True, turn + 1
    return learned


def _batch(conversations: Sequence[Conversation], tokenizer: "PreTrainedTokenizerBase") -> Batch:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = [_ids(conversation, tokenizer) for conversation in conversations]
    learned = [
        learned_tokens(row, conversation.unlearned, tokenizer)
        for row, conversation in zip(ids, conversations, strict=True)
    ]
    pad = float(tokenizer.pad_token_id)
    return Batch(
        ids_NT=pad_sequence(
            [torch.tensor(row) for row in ids], batch_first=True, padding_value=pad
        ),
        learned_NT=pad_sequence([torch.tensor(row) for row in learned], batch_first=True),
        tokens=sum(map(len, ids)),
    )


def _ids(conversation: Conversation, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    tools = [dict(tool) for tool in conversation.tools] or None
    text = tokenizer.apply_chat_template(conversation.messages, tools=tools, tokenize=False)
    return list(tokenizer.encode(str(text)))
