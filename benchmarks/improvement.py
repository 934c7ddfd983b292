"""Does reinforcement learning improve on imitation? One environment, by its example's commands.

    python -m benchmarks.improvement webshop        # examples/webshop{_warm,}.toml
    make improvement ENV=webshop

A scripted expert demonstrates, a small model imitates a few of its chains, and is trained by
reward from there. Held-out reward of a random player, of the warm start, after training and of
the expert, each with a 95% interval, goes to docs/results/NAME with the training curve.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentfly.observe import mean_interval, plot_curves, read_metrics, read_trajectories

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
RESULTS = ROOT / "docs" / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """How well somebody does on the held-out tasks."""

    who: str
    reward: float
    low: float
    high: float
    solved: float


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

    def demonstrate(self, who: str, count: int, *more: str) -> Path:
        out = self.folder / f"{who}{''.join(more)}.jsonl"
        arguments = ["--by", who, "--count", str(count), "--out", str(out), *more]
        kind = self.settings["source"][0].get("kind", "tools")
        agentfly("envs", "demonstrate", *self.environment, *arguments, "--kind", kind)
        return out


def agentfly(*arguments: str) -> None:
    """Run a command as a person would."""
    print(f"$ agentfly {shlex.join(arguments)}", flush=True)
    subprocess.run([sys.executable, "-m", "agentfly.cli", *arguments], check=True, cwd=ROOT)


def improve(example: Example, *, demonstrations: int, held_out: int) -> list[Level]:
    """Demonstrate, imitate, train; return who does how well."""
    chains = example.demonstrate("expert", demonstrations)
    folder = f"folder={json.dumps(str(example.folder))}"
    name = example.name
    files = f"data.files=[{json.dumps(str(chains))}]"
    agentfly("sft", f"examples/{name}_warm.toml", folder, files, "name=warm")
    model = f"model.name={json.dumps(str(example.folder / 'warm' / 'model'))}"
    agentfly("train", f"examples/{name}.toml", folder, model, "name=trained")
    before, after = _evaluated(example.folder / "trained")
    players = {
        who: _played(who, example.demonstrate(who, held_out, "--held-out"))
        for who in ("random", "expert")
    }
    return [players["random"], before, after, players["expert"]]


def _played(who: str, file: Path) -> Level:
    rewards = [chain.reward for chain in read_trajectories(file) if chain.reward is not None]
    interval = mean_interval(rewards)
    assert interval is not None, "several tasks were attempted"
    return Level(
        who=who,
        reward=sum(rewards) / len(rewards),
        low=interval.low,
        high=interval.high,
        solved=sum(reward >= 1 for reward in rewards) / len(rewards),
    )


def _evaluated(run: Path) -> tuple[Level, Level]:
    records = [record.metrics for record in read_metrics(run / "metrics.jsonl")]
    held_out = [metrics for metrics in records if "eval/reward" in metrics]
    before, after = (
        Level(
            who=who,
            reward=metrics["eval/reward"],
            low=metrics["eval/reward_low"],
            high=metrics["eval/reward_high"],
            solved=metrics["eval/solved"],
        )
        for who, metrics in (("warm start", held_out[0]), ("after RL", held_out[-1]))
    )
    return before, after


def write(example: Example, levels: list[Level], seconds: float) -> None:
    """Leave the table, the curve and the metrics where the documentation shows them."""
    out = RESULTS / example.name
    out.mkdir(parents=True, exist_ok=True)
    rows = [
        f"| {level.who} | {level.reward:.2f} ({level.low:.2f} to {level.high:.2f}) "
        f"| {level.solved:.0%} |"
        for level in levels
    ]
    command = f"python -m benchmarks.improvement {example.name}"
    head = "| who | held-out reward (95% interval) | solved |\n|---|---|---|"
    table = f"`{command}`, {seconds / 60:.0f} minutes\n\n{head}\n" + "\n".join(rows) + "\n"
    (out / "table.md").write_text(table)
    record = {"command": command, "seconds": seconds, "levels": [asdict(one) for one in levels]}
    (out / "report.json").write_text(json.dumps(record, indent=1) + "\n")
    metrics = example.folder / "trained" / "metrics.jsonl"
    shutil.copy(metrics, out / "metrics.jsonl")
    plot_curves(read_metrics(metrics), out / "reward.png", None, title=example.name)
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="of an example, such as webshop")
    parser.add_argument("--demonstrations", type=int, default=400)
    parser.add_argument("--held-out", type=int, default=100)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs")
    given = parser.parse_args()
    example = Example(name=given.name, folder=given.folder.resolve() / f"{given.name}_example")
    example.folder.mkdir(parents=True)
    started = time.monotonic()
    levels = improve(example, demonstrations=given.demonstrations, held_out=given.held_out)
    write(example, levels, round(time.monotonic() - started))


if __name__ == "__main__":
    main()
