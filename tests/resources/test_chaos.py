"""A crowd of chains over few environments that crash, hang and close slowly: see `chaos_run`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentfly.runtime.process_registry import FOLDER_VARIABLE

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and the sandbox")


def run_chaos(tmp_path: Path, seed: int, chains: int) -> None:
    """Run it with folders of its own, and show what it says if it fails."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"TMPDIR": str(temporary), FOLDER_VARIABLE: str(tmp_path / "processes")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.resources.chaos_run", str(seed), str(chains)],
        env={**os.environ, **own, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr


def test_a_small_crowd_ends_and_leaves_nothing(tmp_path: Path) -> None:
    run_chaos(tmp_path, seed=0, chains=60)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 11))
def test_two_thousand_chains_end_and_leave_nothing(tmp_path: Path, seed: int) -> None:
    run_chaos(tmp_path, seed, chains=2000)
