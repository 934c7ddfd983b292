"""Improvement by reinforcement learning over imitation, in one environment, with its example.

    python -m benchmarks.improvement webshop        # examples/webshop{_warm,}.toml
    make improvement ENV=webshop

A scripted expert demonstrates (and a random player, where the warm start should not be too good),
a small model imitates the chains, and is trained by reward from there.
Held-out reward of a random player, of the warm start, after training and of the expert, each with
a 95% interval, goes to docs/results/NAME with the training curve. Results of an earlier call in
its folder are reused.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentfly.agents.source_parts import resolve_source
from agentfly.config import load_settings
from agentfly.observe import evaluation_metrics, plot_curves, read_metrics, read_trajectories
from agentfly.types import collect_groups

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
RESULTS = ROOT / "docs" / "results"
EVERY = 1_000_000
"""More tasks than any environment holds out: players attempt the same tasks as the model."""
DEFAULT_DEMONSTRATIONS = {"expert": 400}
DEMONSTRATIONS = {
    "alfworld": {"expert": 8000, "random": 2000},
    "scienceworld": {"expert": 48, "random": 16},
    "search": {"expert": 8000},
    "webshop": {"expert": 3000},
}
"""Number of chains that the warm start imitates, by player."""
MAX_WARM_SHARE = 0.6
"""Maximum reward of a warm start, as a share of the expert's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Held-out results of one player or model."""

    who: str
    reward: float
    low: float
    high: float
    solved: float
    solved_low: float
    solved_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """The files of one environment's example, and the folder of its runs."""

    name: str
    folder: Path

    @property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((EXAMPLES / f"{self.name}.toml").read_text())

    @property
    def environment(self) -> list[str]:
        """Return the environment with its options, as the command line takes them."""
        source = self.settings["source"][0]
        options = source.get("options", {})
        return [source["environment"], *(f"{k}={json.dumps(v)}" for k, v in options.items())]

    @property
    def has_random_player(self) -> bool:
        kit = resolve_source(load_settings(EXAMPLES / f"{self.name}.toml").source[0]).kit
        return kit is not None and kit.random is not None

    def demonstrate(self, who: str, count: int, *more: str) -> Path:
        out = self.folder / f"{who}{''.join(more)}.jsonl"
        half = out.with_name(f"half_{out.name}")
        arguments = ["--by", who, "--count", str(count), "--out", str(half), *more]
        kind = self.settings["source"][0].get("kind", "tools")
        if not out.exists():
            agentfly("envs", "demonstrate", *self.environment, *arguments, "--kind", kind)
            half.replace(out)
        return out


def agentfly(*arguments: str) -> None:
    """Run a command as a person would."""
    print(f"$ agentfly {shlex.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "agentfly.cli", *arguments], check=True, cwd=ROOT)


def improve(example: Example) -> list[Level]:
    """Demonstrate, imitate, train; return who does how well."""
    counts = DEMONSTRATIONS.get(example.name, DEFAULT_DEMONSTRATIONS)
    chains = [str(example.demonstrate(who, count)) for who, count in counts.items()]
    folder = f"folder={json.dumps(str(example.folder))}"
    files = f"data.files={json.dumps(chains)}"
    warm = example.folder / "warm" / "model"
    if not warm.exists():
        again = ["--resume"] if warm.parent.exists() else []
        agentfly("sft", f"examples/{example.name}_warm.toml", folder, files, "name=warm", *again)
    trained = example.folder / "trained"
    if not _is_finished(trained, example.settings["train"]["steps"]):
        model = f"model.name={json.dumps(str(warm))}"
        again = ["--resume"] if trained.exists() else []
        agentfly("train", f"examples/{example.name}.toml", folder, model, "name=trained", *again)
    before, after = _evaluated(trained)
    expert = _played("expert", example.demonstrate("expert", EVERY, "--held-out"))
    if not example.has_random_player:
        return [before, after, expert]
    random = example.demonstrate("random", EVERY, "--held-out")
    return [_played("random", random), before, after, expert]


def problems(levels: list[Level]) -> list[str]:
    """Say what the numbers do not show."""
    by_who = {level.who: level for level in levels}
    warm, after, expert = (by_who[who] for who in ("warm start", "after RL", "expert"))
    found = []
    if warm.reward > MAX_WARM_SHARE * expert.reward:
        found.append(f"the warm start is above {MAX_WARM_SHARE:.0%} of the expert")
    if after.reward <= warm.high:
        found.append("after RL the reward is not above the warm start's interval")
    return found


def _is_finished(run: Path, steps: int) -> bool:
    """Return whether a run was evaluated after its last step."""
    metrics = run / "metrics.jsonl"
    records = read_metrics(metrics) if metrics.exists() else ()
    return any(one.step == steps and "eval/reward" in one.metrics for one in records)


def _played(who: str, file: Path) -> Level:
    return _level(who, evaluation_metrics(collect_groups(read_trajectories(file))))


def _evaluated(run: Path) -> tuple[Level, Level]:
    records = [record.metrics for record in read_metrics(run / "metrics.jsonl")]
    held_out = [metrics for metrics in records if "eval/reward" in metrics]
    return _level("warm start", held_out[0]), _level("after RL", held_out[-1])


def _level(who: str, metrics: Mapping[str, float]) -> Level:
    return Level(
        who=who,
        reward=metrics["eval/reward"],
        low=metrics["eval/reward_low"],
        high=metrics["eval/reward_high"],
        solved=metrics["eval/solved"],
        solved_low=metrics["eval/solved_low"],
        solved_high=metrics["eval/solved_high"],
    )


def write(example: Example, levels: list[Level]) -> None:
    """Leave the table, the curve and the metrics where the documentation shows them."""
    metrics = example.folder / "trained" / "metrics.jsonl"
    records = read_metrics(metrics)
    seconds = records[-1].time - records[0].time
    out = RESULTS / example.name
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        f"| {level.who} | {level.reward:.2f} ({level.low:.2f} to {level.high:.2f}) "
        f"| {level.solved:.0%} ({level.solved_low:.0%} to {level.solved_high:.0%}) |"
        for level in levels
    ]
    command = shlex.join(["python", "-m", "benchmarks.improvement", *sys.argv[1:]])
    head = "| who | held-out reward (95% interval) | solved (95% interval) |\n|---|---|---|"
    caption = f"`{command}`; training took {seconds / 60:.0f} minutes"
    table = f"{caption}\n\n{head}\n" + "\n".join(rows) + "\n"
    (out / "table.md").write_text(table)
    record = {"command": command, "seconds": seconds, "levels": [asdict(one) for one in levels]}
    (out / "report.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.copy(metrics, out / "metrics.jsonl")
    plot_curves(records, out / "reward.png", None, title=example.name)
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of an example, such as webshop")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs")
    given = parser.parse_args()
    example = Example(name=given.name, folder=given.folder.resolve() / f"{given.name}_example")
    example.folder.mkdir(parents=True, exist_ok=True)
    levels = improve(example)
    write(example, levels)
    if found := problems(levels):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
