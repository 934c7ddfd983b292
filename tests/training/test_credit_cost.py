"""What it costs to record the advantages of a step's tokens."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfly.config import load_settings
from agentfly.observe import RunProgress
from agentfly.training import loop, train
from agentfly.training.learner import learner, step_metrics

FILE = Path(__file__).parents[2] / "examples" / "tiny_calculator.toml"
MAX_SHARE = 0.02


class Spent:
    """Processor time of calls, each in its own thread."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*given: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return call(*given, **named)
            finally:
                self.seconds += time.thread_time() - started

        return wrapped


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["grpo", "ppo"])
def test_recording_takes_little_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    """The model is the smallest there is: with any other, a step takes longer."""
    spent = Spent()
    for owner, name in (
        (learner, "record_credit"),
        (loop, "write_credit"),
        (step_metrics.StepRecorder, "note_entropies"),
    ):
        monkeypatch.setattr(owner, name, spent.timed(getattr(owner, name)))
    overrides = [f"folder={tmp_path}", f"algorithm.name={algorithm}", "train.steps=2"]
    overrides += ["eval.at_start=false", "eval.at_end=false", "eval.every=0", "track.trackers=[]"]
    started = time.process_time()
    result = train(
        load_settings(FILE, overrides), base=FILE.parent, progress=RunProgress(quiet=True)
    )
    total = time.process_time() - started
    chains = result.folder / "trajectories"
    sizes = [sum(f.stat().st_size for f in chains.glob(n)) for n in ("advantages_*", "step_*")]
    print(f"{algorithm}: {spent.seconds / total:.2%} of the processor time of two steps")
    print(f"{algorithm}: {sizes[0]:,} bytes beside {sizes[1]:,} of chains")
    assert 0 < spent.seconds < MAX_SHARE * total
