"""What the tiny models are trained on, and how they are measured."""

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfly.models import resolve_model
from agentfly.models.tiny.arithmetic import evaluate, held_out, held_out_problem, problem
from agentfly.models.tiny.conversation import (
    Conversation,
    calculate,
    converse,
    correct_a_mistake,
)
from agentfly.models.tiny.phrase import fill, sentence
from agentfly.models.tiny.pretrain import batches, learned_tokens
from agentfly.models.tiny.solve_rate import called_result
from agentfly.models.tiny.tool_schemas import PRODUCT_CALCULATOR
from agentfly.tools import calculator

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(resolve_model("tiny"))


def render(tokenizer: Any, conversation: Conversation) -> str:
    tools = conversation.tools or None
    return str(tokenizer.apply_chat_template(conversation.messages, tools=tools, tokenize=False))


def learned_text(tokenizer: Any, conversation: Conversation) -> str:
    ids = tokenizer.encode(render(tokenizer, conversation))
    learned = learned_tokens(ids, conversation.unlearned, tokenizer)
    return str(tokenizer.decode([i for i, learn in zip(ids, learned, strict=True) if learn]))


def test_slots_of_one_name_hold_one_word() -> None:
    text = fill("{colour} {colour} {colour2} {n}", Random(3), n="7")
    first, again, other, n = text.split()
    assert first == again != other
    assert n == "7"


def test_sentences_have_no_open_slots() -> None:
    rng = Random(0)
    assert not any("{" in sentence(rng) for _ in range(2000))


@pytest.mark.parametrize(
    ("expression", "value"),
    [("23*41", "943"), ("7-12", "-5"), ("-5+3", "-2"), ("2 + 2", "4"), ("23*", None), ("x", None)],
)
def test_arithmetic_by_hand(expression: str, value: str | None) -> None:
    assert evaluate(expression) == value


def test_the_measure_asks_what_training_never_shows() -> None:
    rng = Random(0)
    for _ in range(500):
        a, b = map(int, re.findall(r"\d+", problem(rng).expression))
        assert not held_out(a, b)
        x, y = map(int, re.findall(r"\d+", held_out_problem(rng).expression))
        assert held_out(x, y)
        assert 10 <= min(x, y) <= max(x, y) <= 99


def test_the_calculator_is_shown_as_agents_show_it() -> None:
    assert calculator.spec.to_openai() == PRODUCT_CALCULATOR


def test_what_is_learned_is_what_the_assistant_says(tokenizer: Any) -> None:
    conversation = calculate(Random(5))
    call, answer = (m for m in conversation.messages if m["role"] == "assistant")
    expression = call["tool_calls"][0]["function"]["arguments"]["expression"]
    assert learned_text(tokenizer, conversation) == (
        f'<tool_call>\n{{"name": "calculator", "arguments": {{"expression": "{expression}"}}}}\n'
        f"</tool_call><|im_end|>{answer['content']}<|im_end|>"
    )


def test_mistakes_are_read_but_not_learned(tokenizer: Any) -> None:
    for seed in range(20):
        conversation = correct_a_mistake(Random(seed))
        said = [m for m in conversation.messages if m["role"] == "assistant"]
        assert len(said) == 3
        text = learned_text(tokenizer, conversation)
        assert text.count("<|im_end|>") == 2
        assert called_result(text.split("<|im_end|>")[0] + "<|im_end|>") is not None


@settings(max_examples=100)
@given(seed=st.integers(0, 10**6))
def test_every_turn_but_mistakes_is_learned_to_its_end(tokenizer: Any, seed: int) -> None:
    conversation = converse(Random(seed))
    turns = sum(message["role"] == "assistant" for message in conversation.messages)
    text = learned_text(tokenizer, conversation)
    assert text.count("<|im_end|>") == turns - len(conversation.unlearned) > 0
    assert "<|im_start|>" not in text
    assert "<tool_response>" not in text


def test_batches_are_seeded_and_grow_harder(tokenizer: Any) -> None:
    pytest.importorskip("torch")

    def first(seed: int) -> list[Any]:
        stream = batches(tokenizer, rows=8, easy_tokens=1000, seed=seed)
        return [next(stream) for _ in range(6)]

    one, same, other = first(0), first(0), first(1)
    assert all(a.ids_NT.equal(b.ids_NT) for a, b in zip(one, same, strict=True))
    assert not all(a.ids_NT.equal(b.ids_NT) for a, b in zip(one, other, strict=True))
    texts = [tokenizer.decode(batch.ids_NT.flatten().tolist()) for batch in one]
    assert "Tools:" not in texts[0]
    assert "Tools:" in texts[-1]


def test_padding_is_neither_learned_nor_counted(tokenizer: Any) -> None:
    pytest.importorskip("torch")
    batch = next(batches(tokenizer, rows=8, easy_tokens=1000, seed=0))
    padding = batch.ids_NT == tokenizer.pad_token_id
    assert padding.any()
    assert not (padding & batch.learned_NT).any()
    assert batch.tokens == (~padding).sum()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('{"name": "calculator", "arguments": {"expression": "23*41"}}', "943"),
        ('{"name": "calculate", "arguments": {"expression": "23*41"}}', None),
        ('{"name": "calculator", "arguments": {"expression": 23}}', None),
        ('{"name": "calculator", "arguments": "23*41"}', None),
        ('{"name": "calculator", "arguments": {"expression": "23*41"}', None),
        ("[]", None),
    ],
)
def test_only_proper_calls_are_run(text: str, result: str | None) -> None:
    assert called_result(f"<tool_call>\n{text}\n</tool_call><|im_end|>") == result
    assert called_result(text) is None
