"""The run that the README shows learns: with defaults, on a CPU."""

from pathlib import Path

import pytest
from tests.training.test_findings import Shown

from agentfly.agents.trial_file import read_trials
from agentfly.config import load_settings
from agentfly.observe.finding_rules import FindingKind
from agentfly.training import StoppedBy, train

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "sums.toml"
RISEN = 0.7
"""Mean reward of two steps in a row."""


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_the_reward_rises(tmp_path: Path) -> None:
    overrides = [
        f"folder={tmp_path}",
        f"train.target_reward={RISEN}",
        "train.target_window=2",
        "track.trackers=[]",
        # A busy machine trains as well as a quiet one, only later.
        "rollout.chain_seconds=36000",
        "rollout.stall_seconds=36000",
    ]
    shown = Shown()
    result = train(load_settings(FILE, overrides), base=FILE.parent, progress=shown)
    assert result.stopped_by is StoppedBy.TARGET, shown.lines
    (trial,) = read_trials(result.folder / "example.json").values()
    assert trial.example is not None
    rewards = [record.metrics["reward/mean"] for record in result.metrics if record.step > 0]
    assert rewards[0] < 0.55, "otherwise there was nothing to learn"
    kinds = {finding.kind for finding in result.findings}
    assert not kinds & {FindingKind.NO_CALLS, FindingKind.FLAT_REWARDS}
