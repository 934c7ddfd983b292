"""`agentfly export`: rows that other programs read."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from tests.observe.finished_groups import chain, group, scored, turn
from tests.observe.recorded_runs import record_run
from typer.testing import CliRunner

from agentfly.cli.main import app
from agentfly.types import ToolStatus

GROUPS = [
    group(
        "6*7",
        [
            chain(0.5, turn(text="half")),
            chain(1.0, turn(ToolStatus.OK, text=""), turn(index=1, text="It is 42.")),
            chain(0.0, turn(text="wrong")),
        ],
    ),
    scored("flat", 1.0, 1.0),
    scored("low", 0.0, 0.5),
    scored("failed", None),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    held_out = {4: [scored("held", 1.0)]}
    return record_run(tmp_path / "demo", steps={3: GROUPS}, evaluations=held_out)


def exported(run: Path, *arguments: str) -> Path:
    out = run.parent / "out"
    done = CliRunner().invoke(app, ["export", str(run), "--out", str(out), *arguments])
    assert done.exit_code == 0, done.output
    return out


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_sft_rows_are_the_best_chains_of_groups(run: Path) -> None:
    first, flat = rows(exported(run))
    roles = [message["role"] for message in first["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert first["messages"][-1]["content"] == "It is 42."
    assert flat["messages"][1]["content"] == "What is flat?"
    assert len(rows(exported(run, "--min-reward", "0.5"))) == 3


def test_no_rows_are_explained(run: Path) -> None:
    out = str(run.parent / "out")
    done = CliRunner().invoke(app, ["export", str(run), "--out", out, "--min-reward", "5"])
    assert "No group has a chain with a reward of 5 or more: lower it" in done.stderr


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (".", "is a folder: name a file, such as sft.jsonl"),
        ("missing/rows.jsonl", "can't be used: No such file or directory. Check that its folder"),
    ],
)
def test_a_path_that_cannot_be_written_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, out: str, said: str
) -> None:
    monkeypatch.chdir(run.parent)
    done = CliRunner().invoke(app, ["export", "demo", "--out", out])
    assert (done.exit_code, said in done.stderr) == (2, True)


def test_dpo_rows_are_pairs_of_groups_with_a_difference(run: Path) -> None:
    (pair,) = rows(exported(run, "--format", "dpo"))
    assert [message["role"] for message in pair["prompt"]] == ["system", "user"]
    assert pair["chosen"][-1]["content"] == "It is 42."
    assert [message["content"] for message in pair["rejected"]] == ["wrong"]


def test_every_chain_but_the_held_out_ones(run: Path) -> None:
    every = rows(exported(run, "--format", "jsonl"))
    assert [row["task_id"] for row in every] == ["6*7"] * 3 + ["flat"] * 2 + ["low"] * 2 + [
        "failed"
    ]
    assert every[-1]["reward"] is None
    assert every[-1]["error"] == "EnvError: gone"


def test_parquet_has_the_tokens(run: Path) -> None:
    table = pyarrow.parquet.read_table(exported(run, "--format", "parquet")).to_pylist()
    assert len(table) == 8
    (ids,), (sampled,), (logprobs,) = (
        table[0][name] for name in ("token_ids", "sampled", "logprobs")
    )
    assert ids == [1, 2, 3, 7, 7, 7, 7]
    assert sampled == [False] * 3 + [True] * 4
    assert logprobs == [0.0] * 3 + [-1.0] * 4
    assert json.loads(table[0]["messages"])[-1]["content"] == "half"


def test_a_run_without_chains_is_refused(tmp_path: Path) -> None:
    run = record_run(tmp_path / "empty")
    done = CliRunner().invoke(app, ["export", str(run)])
    assert (done.exit_code, "no chains" in done.output) == (2, True)
