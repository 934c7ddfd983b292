import pytest
from tests.rewards.reward_chains import value_of

from agentfly.errors import RewardError
from agentfly.rewards import qa_exact_match, qa_f1
from agentfly.rewards.text_match import normalize_answer, token_f1


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles", "beatles"),
        ("  a   cat\tand an owl\n", "cat and owl"),
        ("Eiffel-Tower!", "eiffeltower"),
        ("U.S.A.", "usa"),
        ("theatre", "theatre"),
        ("A", ""),
        ("the-cat", "thecat"),
        ("l’été", "l’été"),
        ("Ångström", "ångström"),
        ("1,000", "1000"),
        ("", ""),
    ],
)
def test_squads_normalization(text: str, normal: str) -> None:
    assert normalize_answer(text) == normal


@pytest.mark.parametrize(
    ("said", "gold", "f1"),
    [
        ("cat", "cat", 1.0),
        ("the cat sat", "a cat", 2 / 3),  # cat, sat / cat: precision 1/2, recall 1
        ("cat cat", "cat dog", 1 / 2),  # one cat is shared: precision 1/2, recall 1/2
        ("cat cat dog", "cat cat", 4 / 5),  # precision 2/3, recall 1
        ("dog", "cat", 0.0),
        ("", "cat", 0.0),
        ("the", "a", 1.0),  # both are empty
        ("the", "cat", 0.0),
    ],
)
def test_f1_by_hand(said: str, gold: str, f1: float) -> None:
    assert token_f1(said, gold) == pytest.approx(f1)


async def test_of_several_answers_the_best_counts() -> None:
    golds = ["Rollo", "the Viking Rollo"]
    assert await value_of(qa_exact_match(), "Viking Rollo.", answer=golds) == 1.0
    assert await value_of(qa_exact_match(), "Viking", answer=golds) == 0.0
    assert await value_of(qa_f1(), "Viking", answer=golds) == pytest.approx(2 / 3)
    assert await value_of(qa_f1(field="gold"), "Rollo", gold="rollo") == 1.0


@pytest.mark.parametrize("answer", [[], [""], ["the"], ""])
async def test_a_question_without_an_answer_is_answered_by_silence(answer: object) -> None:
    for made in (qa_exact_match(), qa_f1()):
        assert await value_of(made, "", answer=answer) == 1.0
        assert await value_of(made, "Rollo", answer=answer) == 0.0


async def test_a_missing_field_is_an_error() -> None:
    for made in (qa_exact_match(), qa_f1()):
        with pytest.raises(RewardError, match=r"no field 'answer'. Did you mean 'answers'"):
            await value_of(made, "Rollo", answers=["Rollo"])
