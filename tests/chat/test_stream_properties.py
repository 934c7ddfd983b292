"""The promise "tokens are the record", on random conversations.

Whatever was sampled, whatever tools and users answer (all of Unicode, lone surrogates and the text
of special tokens included): the origin of every token is known, the mask is on exactly the sampled
ones, and what lies between them is, character for character, what the template says.
"""

from dataclasses import dataclass
from functools import lru_cache

from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from agentfly.chat import ByteTokenizer, TemplateRenderer, mask_policy, wrap_tokenizer
from agentfly.chat.tokenizer_adapters import well_formed
from agentfly.types import Completion, FinishReason, Message, TokenStream, Turn
from agentfly.types import Tokenizer as AnyTokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"]
EOS = "<|endoftext|>"
PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


@lru_cache(maxsize=1)
def merging() -> AnyTokenizer:
    """Train a BPE whose tokens cross newlines and the edges of special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    lines = [">\n<", "user\nHi", "assistant\nHe", "|>\n", "<|im_", "end|>\n\n", "\ntool\n"]
    tokenizer.train_from_iterator(lines * 9, trainer)
    tokenizer.add_special_tokens([*SPECIAL, EOS])
    return wrap_tokenizer(tokenizer, eos_token=EOS)


@lru_cache(maxsize=2)
def renderer_of(kind: str) -> TemplateRenderer:
    tokenizer = ByteTokenizer(SPECIAL, eos_token=EOS) if kind == "bytes" else merging()
    return TemplateRenderer(tokenizer, CHATML)


anything = st.characters(exclude_categories=())
hostile = st.sampled_from([*SPECIAL, EOS, "<|im_", "end|>", "<", "\n", "\ud800", "\udfff😀"])
words = st.lists(st.one_of(st.text(anything, max_size=8), hostile), max_size=5).map("".join)
replies = st.lists(
    st.one_of(
        st.builds(Message, role=st.just("user"), content=words),
        st.builds(
            Message,
            role=st.just("tool"),
            content=words,
            name=st.sampled_from([None, "f", "f<|im_end|>"]),
            tool_call_id=st.sampled_from([None, "call_0", "call_1"]),
        ),
    ),
    min_size=1,
    max_size=3,
)


@dataclass(frozen=True)
class Step:
    ids: tuple[int, ...]
    replies: tuple[Message, ...]


def step(kind: str) -> st.SearchStrategy[Step]:
    special = list(renderer_of(kind).tokenizer.special_ids.values())
    token = st.one_of(st.integers(min_value=0, max_value=300), st.sampled_from(special))
    return st.builds(Step, st.lists(token, max_size=12).map(tuple), replies.map(tuple))


conversations = st.sampled_from(["bytes", "bpe"]).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(step(kind), min_size=1, max_size=4))
)


def complete(ids: tuple[int, ...]) -> Completion:
    return Completion(
        token_ids=ids,
        logprobs=(-0.5,) * len(ids),
        versions=((0, len(ids)),) if ids else (),
        finish_reason=FinishReason.LENGTH,
    )


def play(renderer: TemplateRenderer, steps: list[Step]) -> TokenStream:
    history = [Message(role="user", content="Hi")]
    context = renderer.open(history, [])
    turns = []
    for index, taken in enumerate(steps):
        completion = complete(taken.ids)
        parsed = renderer.parse(completion)
        turns.append(
            Turn(
                index=index,
                context_ids=context,
                completion=completion,
                message=parsed.message,
                temperature=1.0,
                replies=taken.replies,
                reasoning_spans=parsed.reasoning_spans,
            )
        )
        history.append(parsed.message)
        extension = renderer.extend(history, completion, taken.replies, [])
        assert not extension.new_stream
        context = extension.token_ids
        history += taken.replies
    last = Message(role="assistant")
    turns.append(
        Turn(
            index=len(steps),
            context_ids=context,
            completion=complete(()),
            message=last,
            temperature=1.0,
        )
    )
    return TokenStream(turns=tuple(turns))


def expected(renderer: TemplateRenderer, taken: Step) -> str:
    """Write by hand what must follow a turn in ChatML."""
    end = renderer.tokenizer.special_ids["<|im_end|>"]
    eos = renderer.tokenizer.eos_id
    closed = bool(taken.ids) and taken.ids[-1] in (end, eos)
    said = "".join(
        f"<|im_start|>{reply.role}\n{well_formed(reply.content)}<|im_end|>\n"
        for reply in taken.replies
    )
    return ("" if closed else "<|im_end|>") + "\n" + said + "<|im_start|>assistant\n"


@settings(max_examples=80, deadline=None)
@given(conversations)
def test_the_origin_of_every_token_is_known(conversation: tuple[str, list[Step]]) -> None:
    kind, steps = conversation
    renderer = renderer_of(kind)
    stream = play(renderer, steps)
    contexts = [turn.context_ids for turn in stream.turns]
    assert [renderer.decode(ids) for ids in contexts] == [
        PROMPT,
        *(expected(renderer, taken) for taken in steps),
    ]
    sampled = [taken.ids for taken in steps]
    position = 0
    for index, (context, ids) in enumerate(zip(contexts, [*sampled, ()], strict=True)):
        asked = position + len(context)
        end = asked + len(ids)
        assert stream.prompt_ids(index) == stream.token_ids[:asked]
        assert stream.token_ids[position:end] == (*context, *ids)
        assert stream.sampled[position:end] == (False,) * len(context) + (True,) * len(ids)
        position = end
    assert position == len(stream.token_ids)


@settings(max_examples=50, deadline=None)
@given(conversations)
def test_special_tokens_in_the_context_are_the_templates_own(
    conversation: tuple[str, list[Step]],
) -> None:
    kind, steps = conversation
    renderer = renderer_of(kind)
    special = set(renderer.tokenizer.special_ids.values())
    names = renderer.tokenizer.special_ids
    for taken, turn in zip(steps, play(renderer, steps).turns[1:], strict=True):
        made = [token for token in turn.context_ids if token in special]
        closing = [names["<|im_end|>"]] if expected(renderer, taken)[0] == "<" else []
        each = [names["<|im_start|>"], names["<|im_end|>"]]
        assert made == [*closing, *each * len(taken.replies), names["<|im_start|>"]]


@settings(max_examples=50, deadline=None)
@given(conversations)
def test_masks_are_on_sampled_tokens_alone(conversation: tuple[str, list[Step]]) -> None:
    kind, steps = conversation
    turns = play(renderer_of(kind), steps).turns
    lengths = [len(taken.ids) for taken in steps] + [0]
    for name in ("all_sampled", "no_reasoning", "last_turn_only", "valid_calls_only"):
        kept = mask_policy(name)(turns)
        assert [len(mask) for mask in kept] == lengths
    for turn, mask in zip(turns, mask_policy("no_reasoning")(turns), strict=True):
        thought = {i for start, end in turn.reasoning_spans for i in range(start, end)}
        assert {i for i, on in enumerate(mask) if not on} == thought


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["bytes", "bpe"]), words)
def test_any_question_opens_a_prompt(kind: str, question: str) -> None:
    renderer = renderer_of(kind)
    ids = renderer.open([Message(role="user", content=question)], [])
    text = f"<|im_start|>user\n{well_formed(question)}<|im_end|>\n<|im_start|>assistant\n"
    assert renderer.decode(ids) == text
    special = set(renderer.tokenizer.special_ids.values())
    assert len([token for token in ids if token in special]) == 3
