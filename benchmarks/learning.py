"""Learning curves of each algorithm on the tiny calculator task, with three seeds.

    python -m benchmarks.learning                           # all of it, written to docs/results/
    python -m benchmarks.learning --algorithms grpo --seeds 0
    python -m benchmarks.learning --algorithms grpo --max-staleness 0 1 2 --out docs/results/async

Held-out reward before and after, and the training reward of every step; a run that improves by
less than 0.3 is a failure. Two runs go at once, with one thread each. In the results a run replaces
an earlier one of the same algorithm, bound and seed. With several bounds on staleness, an
asynchronous run fails as well if it ends lower than the synchronous ones by more than their seeds
differ, and by more than 0.05.
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
from itertools import product
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "tiny_calculator.toml"
RESULTS = ROOT / "docs" / "results" / "tiny_calculator"
ALGORITHMS = ("ppo", "reinforce++", "grpo", "rloo")
SEEDS = (0, 1, 2)
MIN_GAIN = 0.3
NOISE = 0.05
"""Difference of final rewards that means nothing: four chains per held-out task."""
RATES = {"reinforce++": 2e-4}
"""Learning rates that differ from the example's 3e-4. REINFORCE++ standardizes over the whole step,
so that tasks which are solved already push as hard as others: at 3e-4 it ended at 0.70, 0.75, 0.70
on the three seeds, at 6e-4 at 0.72 on the first."""
EXACT = ("eval.num_chains=4",)
"""Held-out chains per task, more than in the example: the final rewards are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Results of one run."""

    algorithm: str
    max_staleness: int = 0
    seed: int
    lr: float = 3e-4
    before: float
    after: float
    seconds: float
    rewards: list[float]
    """Mean training reward of each step."""

    @property
    def key(self) -> tuple[str, int, int]:
        return self.algorithm, self.max_staleness, self.seed

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
        rate = [f"train.lr={RATES[algorithm]}"] if algorithm in RATES else []
        settings = load_settings(FILE, [*changes, *quiet, *rate, *overrides], {"algorithm": KNOWN})
        result = train(settings, base=FILE.parent, progress=RunProgress(quiet=True))
        records = [record.metrics for record in result.metrics]
    held_out = [metrics["eval/reward"] for metrics in records if "eval/reward" in metrics]
    return Curve(
        algorithm=algorithm,
        max_staleness=settings.rollout.max_staleness,
        seed=seed,
        lr=settings.train.lr or 0.0,
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
    for color, name in enumerate(dict.fromkeys(map(_label, curves))):
        for number, curve in enumerate(c for c in curves if _label(c) == name):
            label = name if number == 0 else None
            steps = range(1, len(curve.rewards) + 1)
            axes.plot(steps, curve.rewards, color=f"C{color}", alpha=0.8, label=label)
    axes.set(xlabel="step", ylabel="training reward", ylim=(0, 1), title="tiny learns a calculator")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def _label(curve: Curve) -> str:
    ahead = f", max_staleness {curve.max_staleness}" if curve.max_staleness else ""
    return f"{curve.algorithm}{ahead}"


def behind(curves: Sequence[Curve]) -> list[str]:
    """Return the asynchronous runs' labels whose final reward is below the synchronous ones'."""
    finals: dict[tuple[str, int], list[float]] = {}
    for curve in curves:
        finals.setdefault((curve.algorithm, curve.max_staleness), []).append(curve.after)
    found = []
    for (algorithm, staleness), after in finals.items():
        synchronous = finals.get((algorithm, 0), after)
        noise = max(NOISE, max(synchronous) - min(synchronous))
        if fmean(after) < fmean(synchronous) - noise:
            found.append(f"{algorithm} at max_staleness {staleness}")
    return found


def measure(jobs: Sequence[tuple[str, int, Sequence[str]]]) -> list[Curve]:
    """Train once for each job, two at a time, and print each result."""
    curves = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context, max_tasks_per_child=1) as processes:
        for curve in processes.map(learn, *zip(*jobs, strict=True)):
            curves.append(curve)
            gain = f"{curve.before:.2f} → {curve.after:.2f}  ({curve.seconds:.0f} s)"
            print(f"  {_label(curve):30} seed {curve.seed}  {gain}", flush=True)
    return curves


def recorded(path: Path) -> list[Curve]:
    """Return the curves of earlier runs."""
    if not path.exists():
        return []
    return [Curve(**run) for run in json.loads(path.read_text())["runs"]]


def merged(old: Sequence[Curve], new: Sequence[Curve]) -> list[Curve]:
    """Replace old curves by new ones of the same settings, and add those without an old one."""
    replaced = {curve.key: curve for curve in [*old, *new]}
    return list(replaced.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algorithms", nargs="+", default=ALGORITHMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--max-staleness", nargs="+", type=int, default=(0,))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    bounds = [(*EXACT, f"rollout.max_staleness={bound}") for bound in given.max_staleness]
    new = measure(list(product(given.algorithms, given.seeds, bounds)))
    curves = merged(recorded(given.out / "curves.json"), new)
    given.out.mkdir(parents=True, exist_ok=True)
    record = {"runs": [asdict(curve) for curve in curves]}
    (given.out / "curves.json").write_text(json.dumps(record, indent=1) + "\n")
    plot(curves, given.out / "curves.png")
    failed = [f"{curve.algorithm}/{curve.seed}" for curve in curves if curve.gain < MIN_GAIN]
    if failed:
        sys.exit(f"these improved by less than {MIN_GAIN}: {', '.join(failed)}")
    if worse := behind(curves):
        sys.exit(f"these end below the synchronous runs by more than noise: {', '.join(worse)}")


if __name__ == "__main__":
    main()
