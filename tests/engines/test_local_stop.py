"""End tokens, stop strings and limits."""

import pytest
from tests.engines.local_models import PieceTokenizer, ask, llama, random_ids, request, running

from agentfly.engines.local.job import StopWatch
from agentfly.types import FinishReason, SamplingParams


def watch(limit: int = 99, **params: object) -> StopWatch:
    return StopWatch(SamplingParams(**params), PieceTokenizer(), limit)  # type: ignore[arg-type]


def first_end(stop: StopWatch, ids: list[int]) -> tuple[int, FinishReason | None]:
    for count in range(1, len(ids) + 1):
        reason = stop.after(ids[:count])
        if reason is not None:
            return count, reason
    return len(ids), None


def test_a_stop_string_is_found_across_tokens() -> None:
    ids = [*b"x <", *b"/", 258, *b">", *b"more"]  # 258 is "answer"
    assert first_end(watch(stop=("</answer>",)), ids) == (6, FinishReason.STOP_STRING)
    assert first_end(watch(stop=("</ans",)), ids) == (5, FinishReason.STOP_STRING)


def test_a_stop_string_far_into_a_completion_is_found() -> None:
    ids = [*b"lorem ipsum " * 20, *"é→é".encode(), *b" tail"]
    assert first_end(watch(stop=("é→é",), limit=999), ids) == (240 + 7, FinishReason.STOP_STRING)


def test_an_end_token_goes_before_a_string_and_a_limit() -> None:
    assert watch(limit=1, stop=("a",), stop_token_ids=(97,)).after([97]) is FinishReason.STOP
    assert watch(limit=1, stop=("a",)).after([97]) is FinishReason.STOP_STRING
    assert watch(limit=1).after([97]) is FinishReason.LENGTH
    assert watch(limit=2).after([97]) is None


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_the_ids_stay_exactly_as_sampled(temperature: float) -> None:
    params = SamplingParams(max_tokens=60, temperature=temperature)
    async with running(llama(), PieceTokenizer()) as engine:
        whole = await ask(engine, random_ids(9), params, request("c"))
        text = PieceTokenizer().decode(whole.token_ids)
        string = text[20:23]
        stopping = SamplingParams(max_tokens=60, temperature=temperature, stop=(string,))
        cut = await ask(engine, random_ids(9), stopping, request("c"))
    assert cut.finish_reason is FinishReason.STOP_STRING
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]
    assert string in PieceTokenizer().decode(cut.token_ids)
    assert string not in PieceTokenizer().decode(cut.token_ids[:-1])


async def test_the_sampled_end_token_is_part_of_the_completion() -> None:
    async with running(llama()) as engine:
        whole = await ask(engine, random_ids(9), SamplingParams(max_tokens=30))
        end = whole.token_ids[12]
        ended = await ask(
            engine, random_ids(9), SamplingParams(max_tokens=30, stop_token_ids=(end,))
        )
    assert ended.finish_reason is FinishReason.STOP
    assert ended.token_ids == whole.token_ids[: whole.token_ids.index(end) + 1]
