"""The built-in rewards on real data, if there is any: `../shared/data` next to the project.

Without the data there is nothing to check, so each test then has no case at all.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.rewards.reward_chains import value_of

from agentfly.rewards import math_equivalence, numeric_match, qa_exact_match, qa_f1

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def present(*names: str) -> list[Path]:
    return [DATA / name for name in names if (DATA / name).exists()]


def gsm8k(path: Path, every: int) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for i, line in enumerate(lines) if i % every == 0]


def squad(path: Path, every: int) -> list[dict[str, Any]]:
    articles = json.loads(gzip.decompress(path.read_bytes()))["data"]
    return [q for a in articles for p in a["paragraphs"] for q in p["qas"]][::every]


@pytest.mark.parametrize("path", present("gsm8k/train.jsonl.gz"))
async def test_gsm8ks_solutions_are_right_and_others_are_not(path: Path) -> None:
    match = numeric_match()
    rows = gsm8k(path, every=10)
    assert len(rows) > 500
    for row in rows:
        final = row["answer"].rpartition("####")[2].strip()
        said = f"So the answer is ${final}."
        assert await value_of(match, said, answer=row["answer"]) == 1.0, final
        wrong = f"{float(final.replace(',', '')) + 1}"
        assert await value_of(match, wrong, answer=row["answer"]) == 0.0, final


@pytest.mark.parametrize("path", present("gsm8k/train.jsonl.gz"))
async def test_gsm8ks_solutions_are_equivalent_to_themselves(path: Path) -> None:
    reward = math_equivalence()
    for row in gsm8k(path, every=100):
        final = row["answer"].rpartition("####")[2].strip()
        assert await value_of(reward, rf"\boxed{{{final}}}", answer=row["answer"]) == 1.0, final


@pytest.mark.parametrize("path", present("squad/dev-v2.0.json.gz"))
async def test_squads_own_answers_are_right(path: Path) -> None:
    questions = squad(path, every=10)
    assert len(questions) > 300
    for question in questions:
        golds = [answer["text"] for answer in question["answers"]]
        said = f"The {golds[-1].upper()}!" if golds else ""
        assert await value_of(qa_exact_match(), said, answer=golds) == 1.0, golds
        assert await value_of(qa_f1(), said, answer=golds) == 1.0, golds
        assert await value_of(qa_f1(), "zxqv", answer=golds) == 0.0, golds
