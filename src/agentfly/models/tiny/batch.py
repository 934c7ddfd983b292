"""Conversations packed into token rows, with loss on what the assistant itself would sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from agentfly.models.tiny.conversation import Conversation, converse
from agentfly.models.tiny.tokenizer import END, START

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Rows of equal length, cut from one long stream of conversations.

    A conversation may see those before it in its row. That does no harm, and helps: a format that
    stands in the row already can be copied, and copying is what has to be learnt first.
    """

    ids_NT: "Tensor"
    learnt_NT: "Tensor"
    """True on the tokens of assistant turns, the end token included."""


def batches(
    tokenizer: "PreTrainedTokenizerBase", *, rows: int, width: int, bare_tokens: int, seed: int
) -> Iterator[Batch]:
    """Yield batches without end.

    At first all conversations are bare, without tools and system prompt; after `bare_tokens`
    none is. Where there is little else to look at, what to copy is found sooner.
    """
    import torch

    rng, area, past = Random(seed), rows * width, 0
    ids: list[int] = []
    learnt: list[bool] = []
    while True:
        while len(ids) < area:
            conversation = converse(rng)
            if rng.random() > past / bare_tokens:
                conversation = _bare(conversation)
            more = _ids(conversation, tokenizer)
            ids += more
            learnt += learnt_tokens(more, conversation.unlearned, tokenizer)
        yield Batch(
            ids_NT=torch.tensor(ids[:area]).view(rows, width),
            learnt_NT=torch.tensor(learnt[:area]).view(rows, width),
        )
        ids, learnt, past = ids[area:], learnt[area:], past + area


def learnt_tokens(
    ids: Sequence[int], unlearned: frozenset[int], tokenizer: "PreTrainedTokenizerBase"
) -> list[bool]:
    """Tell for each token whether an assistant sampled it, in a turn that is to be learnt."""
    header, end = tokenizer.encode(f"{START}assistant\n"), tokenizer.convert_tokens_to_ids(END)
    learnt, turn, speaking = [], -1, False
    for position, token in enumerate(ids):
        learnt.append(speaking and turn not in unlearned)
        if token == end:
            speaking = False
        elif ids[position + 1 - len(header) : position + 1] == header:
            speaking, turn = True, turn + 1
    return learnt


def _bare(conversation: Conversation) -> Conversation:
    said = [message for message in conversation.messages if message["role"] != "system"]
    return replace(conversation, messages=said, tools=[])


def _ids(conversation: Conversation, tokenizer: "PreTrainedTokenizerBase") -> list[int]:
    tools = [dict(tool) for tool in conversation.tools] or None
    text = tokenizer.apply_chat_template(conversation.messages, tools=tools, tokenize=False)
    return list(tokenizer.encode(str(text)))
