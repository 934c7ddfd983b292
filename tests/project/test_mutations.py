"""Faults that must never go unnoticed: each is put into a copy of the code, and a test must fail.

A suite that stays green with one of these in place would prove nothing about the token record.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
TOKENS = "tests/agents/test_agent_tokens.py"
FAILURES = "tests/agents/test_agent_failures.py"


@dataclass(frozen=True)
class Mutation:
    fault: str
    file: str
    old: str
    new: str
    tests: str


MUTATIONS = [
    Mutation(
        fault="one template newline in the mask",
        file="types/trajectory.py",
        old="for flag, ids in ((False, turn.context_ids), (True, _sampled_ids(turn)))",
        new="for flag, ids in ((False, turn.context_ids[:-1]), (True, turn.context_ids[-1:] + "
        "_sampled_ids(turn)))",
        tests=TOKENS,
    ),
    Mutation(
        fault="an end token appended to a cut turn",
        file="rollout/model_session.py",
        old="        self._completion = completion\n",
        new="        if completion.finish_reason == 'length':\n"
        "            completion = replace(completion, token_ids=(*completion.token_ids, 257),\n"
        "                logprobs=(*completion.logprobs, 0.0),\n"
        "                versions=(*completion.versions, (0, 1)))\n"
        "        self._completion = completion\n",
        tests=TOKENS,
    ),
    Mutation(
        fault="the tools missing from the prompt",
        file="rollout/model_session.py",
        old="self._renderer.open(messages, self._tools)",
        new="self._renderer.open(messages, ())",
        tests=TOKENS,
    ),
    Mutation(
        fault="the model's own tokens missing from the next prompt",
        file="rollout/model_session.py",
        old="        self._ids += completion.token_ids\n",
        new="",
        tests=TOKENS,
    ),
    Mutation(
        fault="one chain's failure cancelling its siblings",
        file="rollout/chain.py",
        old="        except (TimeoutError, ChainError) as error:",
        new="        except TimeoutError as error:",
        tests=FAILURES,
    ),
    Mutation(
        fault="a failed reward scored as 0",
        file="rollout/chain.py",
        old='                return self._record(stop_reason_for(error), f"{type(error).__name__}: '
        '{error}")\n        self._emit(Rewarded',
        new="                return replace(trajectory, score=Score(value=0.0))\n"
        "        self._emit(Rewarded",
        tests=FAILURES,
    ),
]


def run_tests(source: Path, tests: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTEST, "-o", f"pythonpath=. {source}", tests],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.fault)
def test_the_fault_fits_the_code(mutation: Mutation) -> None:
    source = (ROOT / "src" / "agentfly" / mutation.file).read_text()
    assert source.count(mutation.old) == 1, "the mutation no longer fits the code: update it"


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("tests", [TOKENS, FAILURES])
def test_without_a_fault_the_copy_passes(tests: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    run = run_tests(tmp_path / "src", tests)
    assert run.returncode == 0, run.stdout


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.fault)
def test_the_fault_is_caught(mutation: Mutation, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src")
    path = tmp_path / "src" / "agentfly" / mutation.file
    mutated = path.read_text().replace(mutation.old, mutation.new)
    if "Score(" in mutation.new:
        mutated = mutated.replace("    Rewarded,\n", "    Rewarded,\n    Score,\n", 1)
    path.write_text(mutated)
    run = run_tests(tmp_path / "src", mutation.tests)
    assert run.returncode == 1, f"{mutation.fault} went unnoticed:\n{run.stdout}\n{run.stderr}"
    assert " failed" in run.stdout
