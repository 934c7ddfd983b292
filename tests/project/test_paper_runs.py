"""The settings of the paper's runs pass a dry run, and say what is missing where it is missing."""

import json
import re
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from agentfly.cli.train import train

EXAMPLES = Path(__file__).parents[2] / "examples"
FOLDERS = ("qwen2.5-3b", "qwen2.5-7b")
OVERLAYS = ((), ("one_gpu.toml",), ("two_nodes.toml",))

HOTPOT = [
    {
        "_id": "h1",
        "question": "Where is the writer of X from?",
        "answer": "Paris",
        "supporting_facts": [["X", 0], ["Ann", 0]],
        "context": [["X", ["X is by Ann."]], ["Ann", ["Ann is from Paris."]]],
    }
]
SUMS = '{"question": "What is 2+2?", "answer": "4"}\n'

# Official files and services are replaced by generated data and by files that a test writes.
QUESTIONS = """source.0.options={questions="hotpot.json", eval_questions="hotpot.json", \
form="hotpotqa", correct="f1"}"""
STAND_INS = {
    "alfworld": ["source.0.options={games=4, eval_games=2, max_turns=10}"],
    "code": ["source.0.tasks=sums.jsonl", "source.0.eval_tasks=sums.jsonl"],
    "retrieve": [QUESTIONS],
    "search": [QUESTIONS],
    "webshop": ["source.0.options={products=20, max_turns=8}"],
    "scienceworld": ['source.0.options={tasks=["boil"], variations=1, max_turns=24}'],
}

MISSING = {
    "alfworld": r"no games in .*data/alfworld.*alfworld-download",
    "code": r"there is no .*data/orz_math_57k.jsonl",
    "retrieve": r"there is no file .*data/hotpotqa_train_8000.json.*https://hotpotqa.github.io",
    "search": r"there is no file .*data/hotpotqa_train_8000.json.*https://hotpotqa.github.io",
    "webshop": r"there is no folder .*data/webshop.*items_shuffle.*items_ins_v2",
}
"""What the real files lack here, by name: the first thing that a person has to get."""

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(train)


def dry_run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--dry-run"])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run, with an interpreter that stands for the one that has vLLM."""
    monkeypatch.setenv("AGENTFLY_VLLM_PYTHON", sys.executable)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hotpot.json").write_text(json.dumps(HOTPOT))
    (tmp_path / "sums.jsonl").write_text(SUMS)
    return tmp_path


def takes_seconds(name: str, overlay: tuple[str, ...]) -> bool:
    """A simulator starts in each dry run of ScienceWorld, and a sandbox in each of code."""
    return name == "scienceworld" or (name == "code" and overlay != ())


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize(
    ("name", "overlay"),
    [
        pytest.param(
            *(name, overlay),
            id="+".join([name, *overlay]),
            marks=pytest.mark.slow if takes_seconds(name, overlay) else (),
        )
        for name in STAND_INS
        for overlay in OVERLAYS
    ],
)
def test_every_run_is_ready_with_stand_ins(
    folder: str, overlay: tuple[str, ...], name: str, here: Path
) -> None:
    for file in (f"{name}.toml", *overlay):
        (here / file).write_text((EXAMPLES / folder / file).read_text())
    run = dry_run(f"{name}.toml", *overlay, "model.name=tiny-random", *STAND_INS[name])
    assert run.exit_code == 0, run.output
    assert "VERDICT: ready, nothing is in the way of this run" in run.stderr


def test_no_run_is_forgotten() -> None:
    overlays = {file for overlay in OVERLAYS for file in overlay}
    for folder in FOLDERS:
        found = {file.name for file in (EXAMPLES / folder).glob("*.toml")}
        assert found == {f"{name}.toml" for name in STAND_INS} | overlays


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("name", MISSING)
def test_a_run_without_its_data_says_what_to_get(folder: str, name: str, here: Path) -> None:
    run = dry_run(str(EXAMPLES / folder / f"{name}.toml"))
    assert run.exit_code == 2
    assert_matches(MISSING[name], run.stderr)
    complaints = [line for line in run.stderr.splitlines() if "problem:" in line or ".0." in line]
    assert all("data/" in line for line in complaints), "nothing but data is missing"


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_run_without_vllm_says_how_to_install_it(
    folder: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTFLY_VLLM_PYTHON")
    monkeypatch.setenv("PATH", str(here))
    run = dry_run(str(EXAMPLES / folder / "webshop.toml"))
    assert run.exit_code == 2
    assert_matches("engine.python: vLLM is not installed.*AGENTFLY_VLLM_PYTHON", run.stderr)


def assert_matches(pattern: str, text: str) -> None:
    assert re.search(pattern, text), text
