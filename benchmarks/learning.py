"""Learning curves of each algorithm on the tiny calculator task, with three seeds.

    python -m benchmarks.learning                           # all of it, written to docs/results/
    python -m benchmarks.learning --algorithms grpo --seeds 0

Held-out reward before and after, and the training reward of every step; a run that improves by
less than 0.3 is a failure. Two runs go at once, with one thread each.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "tiny_calculator.toml"
RESULTS = ROOT / "docs" / "results" / "tiny_calculator"
ALGORITHMS = ("ppo", "reinforce++", "grpo", "rloo")
SEEDS = (0, 1, 2)
MIN_GAIN = 0.3
EXACT = ("eval.num_chains=4",)
"""Held-out chains per task, more than in the example: the final rewards are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Results of one run."""

    algorithm: str
    seed: int
    before: float
    after: float
    seconds: float
    rewards: list[float]
    """Mean training reward of each step."""

    @property
    def gain(self) -> float:
        return self.after - self.before


def learn(algorithm: str, seed: int, overrides: Sequence[str] = EXACT) -> Curve:
    """Train once, in a folder that is thrown away."""
    from agentfly.algorithms import ALGORITHMS as KNOWN
    from agentfly.config import load_settings
    from agentfly.observe import RunProgress
    from agentfly.training import train

    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        changes = (f"folder='{folder}'", f"algorithm.name={algorithm}", f"seed={seed}")
        quiet = ("eval.every=0", "track.trackers=[]")
        settings = load_settings(FILE, [*changes, *quiet, *overrides], {"algorithm": KNOWN})
        result = train(settings, base=FILE.parent, progress=RunProgress(quiet=True))
        records = [record.metrics for record in result.metrics]
    held_out = [metrics["eval/reward"] for metrics in records if "eval/reward" in metrics]
    return Curve(
        algorithm=algorithm,
        seed=seed,
        before=held_out[0],
        after=held_out[-1],
        seconds=round(time.monotonic() - started, 1),
        rewards=[metrics["reward/mean"] for metrics in records if "reward/mean" in metrics],
    )


def plot(curves: list[Curve], path: Path) -> None:
    """Draw the training reward of every run, the seeds of an algorithm in one color."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for color, name in enumerate(dict.fromkeys(curve.algorithm for curve in curves)):
        for number, curve in enumerate(c for c in curves if c.algorithm == name):
            label = name if number == 0 else None
            steps = range(1, len(curve.rewards) + 1)
            axes.plot(steps, curve.rewards, color=f"C{color}", alpha=0.8, label=label)
    axes.set(xlabel="step", ylabel="training reward", ylim=(0, 1), title="tiny learns a calculator")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    jobs = [(algorithm, seed) for algorithm in given.algorithms for seed in given.seeds]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as processes:
        curves = []
        for curve in processes.map(learn, *zip(*jobs, strict=True)):
            curves.append(curve)
            print(
                f"  {curve.algorithm:14} seed {curve.seed}  {curve.before:.2f} → {curve.after:.2f}"
                f"  ({curve.seconds:.0f} s)",
                flush=True,
            )
    given.out.mkdir(parents=True, exist_ok=True)
    record = {"command": "make learning", "runs": [asdict(curve) for curve in curves]}
    (given.out / "curves.json").write_text(json.dumps(record, indent=1) + "\n")
    plot(curves, given.out / "curves.png")
    failed = [f"{curve.algorithm}/{curve.seed}" for curve in curves if curve.gain < MIN_GAIN]
    if failed:
        sys.exit(f"these improved by less than {MIN_GAIN}: {', '.join(failed)}")


if __name__ == "__main__":
    main()
