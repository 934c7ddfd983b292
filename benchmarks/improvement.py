"""Improvement by reinforcement learning over imitation, in one environment, with its example.

    python -m benchmarks.improvement webshop        # examples/webshop{_warm,}.toml
    python -m benchmarks.improvement webshop --seed 1
    python -m benchmarks.improvement webshop --greedy
    make improvement ENV=webshop GREEDY=1

A scripted player demonstrates, a small model imitates the chains, and is trained by reward from
there.
Held-out reward of a random player, of the warm start, after training and of the expert, each with
a 95% interval, goes to docs/results/NAME with the training curve, in place of what is there;
further seeds are added to the same table. The exit code is 1 if the gain is not clear: less than
0.25 and less than half the gap to the expert, or overlapping intervals.

Chains and runs are in runs/NAME_example. An interrupted call continues there: what exists is
reused, also if the example was changed since. Remove the folder to begin again.
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from fcntl import LOCK_EX, flock
from functools import cached_property
from itertools import chain
from pathlib import Path
from signal import Signals
from statistics import fmean
from typing import Any

from agentfly.agents.source_parts import resolve_source
from agentfly.cli.command import has_begun
from agentfly.config import load_settings
from agentfly.environments.kit import Kit
from agentfly.observe import evaluation_metrics, plot_curves, read_metrics, read_trajectories
from agentfly.observe.evaluation_metrics import Counting
from agentfly.observe.evaluation_summary import evaluation_rows
from agentfly.observe.recorded_run import find_run
from agentfly.observe.summary import summarize
from agentfly.types import Trajectory, collect_groups, declared_range

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
RESULTS = ROOT / "docs" / "results"
EVERY = 1_000_000
"""More tasks than any environment holds out: players attempt all of them."""
DEFAULT_DEMONSTRATIONS = {"expert": 400}
DEMONSTRATIONS = {
    "alfworld": {"noisy": 14000},
    "browser": {"expert": 60},
    "scienceworld": {"expert": 150},
    "search": {"expert": 480},
    "webshop": {"expert": 192},
}
"""Number of chains that the warm start imitates, by player."""
CLEAR_GAIN = 0.25
"""Gain in the share of solved tasks that is clear; half the gap to the expert is, too."""
TRAINING = ("step", "saving", "publishing")
"""Parts of a training's time that follow each other, without evaluations."""
EVALUATION = ("evaluating",)
"""The evaluations before and during a training; the time of the last one is not recorded."""
IMITATION = ("step",)
"""The same for an imitation: its `time/step` includes evaluations and checkpoints."""
COLUMNS = {
    "greedy": "solved greedily",
    "invalid": "invalid calls",
    "unknown": "unknown tools",
    "invalid_actions": "invalid actions",
}
"""Shares in a table, by their field in a level; a column without any value is left out."""
FIELDS = {"browser": "task", "scienceworld": "task", "search": "hops"}
"""Field of the tasks by whose values the share of solved ones is listed."""


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
    greedy: float | None = None
    """Share of solved tasks at temperature 0; None for players, which are not models."""
    invalid: float | None = None
    """Share of the tool calls that were wrong."""
    unknown: float | None = None
    """Share of the tool calls that name no tool of the task."""
    invalid_actions: float | None = None
    """Share of the actions in text that were impossible."""
    parts: dict[str, float] = field(default_factory=dict)
    """Mean of each part of the reward, over the chains that have it."""
    solved_by: dict[str, float] = field(default_factory=dict)
    """Share of solved tasks by the value of a field."""


@dataclass(frozen=True, kw_only=True)
class Example:
    """The files of one environment's example, and the folder of its runs."""

    name: str
    folder: Path
    seed: int = 0

    @property
    def suffix(self) -> str:
        """End of the names of this seed's runs and files."""
        return f"_seed{self.seed}" if self.seed else ""

    @property
    def warm(self) -> Path:
        return self.folder / f"warm{self.suffix}"

    @property
    def trained(self) -> Path:
        return self.folder / f"trained{self.suffix}"

    @property
    def demonstrations(self) -> Mapping[str, int]:
        return DEMONSTRATIONS.get(self.name, DEFAULT_DEMONSTRATIONS)

    @property
    def settings(self) -> dict[str, Any]:
        return tomllib.loads((EXAMPLES / f"{self.name}.toml").read_text())

    @property
    def environment(self) -> list[str]:
        """Return the environment with its options, as the command line takes them."""
        source = self.settings["source"][0]
        options = source.get("options", {})
        return [source["environment"], *(f"{k}={json.dumps(v)}" for k, v in options.items())]

    @cached_property
    def kit(self) -> Kit:
        kit = resolve_source(load_settings(EXAMPLES / f"{self.name}.toml").source[0]).kit
        assert kit is not None, "every example is of an environment"
        return kit

    def demonstrate(self, who: str, count: int, *more: str) -> Path:
        out = self.folder / f"{who}{''.join(more)}.jsonl"
        half = out.with_name(f"half_{out.name}")
        arguments = ["--by", who, "--count", str(count), "--out", str(half), *more]
        kind = self.settings["source"][0].get("kind", "tools")
        with _exclusive(self.folder):
            if not out.exists():
                half.unlink(missing_ok=True)  # An interrupted call left it.
                agentfly("envs", "demonstrate", *self.environment, *arguments, "--kind", kind)
                half.replace(out)
        return out


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, so that processes of other seeds wait."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        flock(opened, LOCK_EX)
        yield
    finally:
        os.close(opened)


def agentfly(*arguments: str) -> None:
    """Run a command as a person would; exit with its code if it fails, as it has said why.

    A command ended by a signal prints no reason, so this does.
    """
    print(f"$ agentfly {shlex.join(arguments)}", flush=True)
    ended = subprocess.run([sys.executable, "-m", "agentfly.cli", *arguments], cwd=ROOT)
    if ended.returncode < 0:
        name = Signals(-ended.returncode).name
        why = " (the system does that when memory runs out)" if name == "SIGKILL" else ""
        sys.exit(f"agentfly {arguments[0]} was ended by {name}{why}. Repeat the call to continue")
    if ended.returncode:
        sys.exit(ended.returncode)


def improve(example: Example, *, greedy: bool = False) -> list[Level]:
    """Run the whole example; return the held-out results of players and models."""
    chains = [str(example.demonstrate(*one)) for one in example.demonstrations.items()]
    model = example.warm / "model"
    if not model.exists():
        run("sft", example, example.warm, {"data.files": chains})
    if not _is_finished(example.trained, example.settings["train"]["steps"]):
        run("train", example, example.trained, {"model.name": str(model)})
    before, after = _evaluated(example)
    if greedy:
        before, after = _with_greedy(example, before, after)
    players = ["random", "expert"] if example.kit.random else ["expert"]
    *random, expert = [_played(example, who) for who in players]
    return [*random, before, after, expert]


def problems(levels: list[Level]) -> list[str]:
    """Return why the gain is not clear; nothing if it is."""
    by_who = {level.who: level for level in levels}
    warm, after, expert = (by_who[who] for who in ("warm start", "after RL", "expert"))
    found = []
    clear = min(CLEAR_GAIN, (expert.solved - warm.solved) / 2)
    if after.solved - warm.solved < clear:
        gain = f"{after.solved - warm.solved:+.2f}"
        found.append(f"the share of solved tasks changed by {gain}, expected at least {clear:+.2f}")
    if after.solved_low <= warm.solved_high:
        found.append("the intervals of the warm start and after RL overlap")
    return found


def run(command: str, example: Example, folder: Path, changes: Mapping[str, Any]) -> None:
    """Start a run, or continue one that was interrupted."""
    file = f"examples/{example.name}{'_warm' if command == 'sft' else ''}.toml"
    settings = {"folder": str(folder.parent), "name": folder.name, "seed": example.seed, **changes}
    overrides = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    agentfly(command, file, *overrides, *(["--resume"] if has_begun(folder) else []))


def _is_finished(run: Path, steps: int) -> bool:
    """Return whether a run was evaluated after its last step."""
    metrics = run / "metrics.jsonl"
    records = read_metrics(metrics) if metrics.exists() else ()
    return any(one.step == steps and "eval/reward" in one.metrics for one in records)


def _played(example: Example, who: str) -> Level:
    """Return how well a player does at the tasks that the model was evaluated on."""
    file = example.demonstrate(who, EVERY, "--held-out")
    evaluated = {one.task.id for one in _held_out_chains(example.trained)[0]}
    chains = [one for one in read_trajectories(file) if one.task.id in evaluated]
    if missing := evaluated - {one.task.id for one in chains}:
        sys.exit(f"{file} is of other settings: it lacks {min(missing)}. Remove it, and call again")
    return _level(example, who, chains)


def _evaluated(example: Example) -> tuple[Level, Level]:
    chains = _held_out_chains(example.trained)
    return _level(example, "warm start", chains[0]), _level(example, "after RL", chains[-1])


def _with_greedy(example: Example, before: Level, after: Level) -> tuple[Level, Level]:
    steps = example.settings["train"]["steps"]
    warm = _greedy(example, "warm", str(example.warm / "model"), f"examples/{example.name}.toml")
    trained = _greedy(example, "trained", f"{example.trained}@{steps}")
    return replace(before, greedy=warm), replace(after, greedy=trained)


def _greedy(example: Example, who: str, *model: str) -> float:
    """Return the share of held-out tasks that a model solves at temperature 0."""
    run = example.warm if who == "warm" else example.trained
    folder = example.folder / f"greedy_{who}{example.suffix}"
    if folder.exists() and folder.stat().st_mtime < (run / "config.toml").stat().st_mtime:
        shutil.rmtree(folder)  # It is of an earlier model.
    where = ["--folder", str(folder.parent), "--name", folder.name]
    again = ["--resume"] if has_begun(folder) else []
    agentfly("eval", *model, "--temperature", "0", "-n", "1", *where, *again)
    return _level(example, who, _held_out_chains(folder)[-1]).solved


def _held_out_chains(run: Path) -> list[list[Trajectory]]:
    """Return the chains of each evaluation of a run."""
    return [list(file.read()) for file in find_run(run).chain_files if file.held_out]


def _level(example: Example, who: str, chains: list[Trajectory]) -> Level:
    rewards, groups = declared_range(example.kit.reward), collect_groups(chains)
    counting = Counting(ranges=dict.fromkeys([one.task.source for one in chains], rewards))
    metrics: Mapping[str, Any] = evaluation_metrics(groups, counting)
    counts = summarize(chains)
    name = FIELDS.get(example.name)
    by_value = evaluation_rows(groups, counting, by=[name])[1:] if name else []
    return Level(
        who=who,
        reward=metrics["eval/reward"],
        low=metrics["eval/reward_low"],
        high=metrics["eval/reward_high"],
        solved=metrics["eval/solved"],
        solved_low=metrics["eval/solved_low"],
        solved_high=metrics["eval/solved_high"],
        invalid=counts.invalid_share,
        unknown=counts.unknown_share,
        invalid_actions=counts.invalid_actions_share,
        parts=_means(one.score.parts.items() for one in chains if one.score),
        solved_by={
            row.title.removeprefix(f"{name} = "): row.solved.value for row in by_value if row.solved
        },
    )


def _means(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, float]:
    """Return the mean of each name's values.

    >>> _means([[("em", 1.0), ("hit", 0.5)], [("em", 0.0)]])
    {'em': 0.5, 'hit': 0.5}
    """
    values: dict[str, list[float]] = {}
    for name, value in chain.from_iterable(rows):
        values.setdefault(name, []).append(value)
    return {name: fmean(of_name) for name, of_name in sorted(values.items())}


def write(example: Example, levels: list[Level]) -> None:
    """Leave the table, the curve and the metrics where the documentation shows them."""
    metrics = example.trained / "metrics.jsonl"
    out = RESULTS / example.name
    out.mkdir(parents=True, exist_ok=True)
    record = {
        "command": _command(example, greedy=any(one.greedy is not None for one in levels)),
        "seed": example.seed,
        "demonstrations": example.demonstrations,
        "seconds": _seconds(metrics, TRAINING),
        "evaluation_seconds": _seconds(metrics, EVALUATION),
        "warm_seconds": _seconds(example.warm / "metrics.jsonl", IMITATION),
        "levels": [asdict(one) for one in levels],
    }
    report = out / f"report{example.suffix}.json"
    report.write_text(json.dumps(record, indent=1) + "\n")
    shutil.copy(metrics, out / f"metrics{example.suffix}.jsonl")
    plot_curves(
        read_metrics(metrics), out / f"reward{example.suffix}.png", None, title=example.name
    )
    text = table([json.loads(file.read_text()) for file in sorted(out.glob("report*.json"))])
    (out / "table.md").write_text(text)
    print(text)


def _command(example: Example, *, greedy: bool) -> str:
    """Return the command that repeats a result; the folder of the runs does not matter."""
    seed = f" SEED={example.seed}" if example.seed else ""
    return f"make improvement ENV={example.name}{seed}{' GREEDY=1' if greedy else ''}"


def _seconds(metrics: Path, parts: Sequence[str]) -> float:
    """Return how long a run worked at these parts, without pauses in which it was interrupted."""
    return sum(
        record.metrics.get(f"time/{part}", 0.0)
        for record in read_metrics(metrics)
        for part in parts
    )


def table(reports: list[dict[str, Any]]) -> str:
    """Return the table of all seeds; random player and expert are those of the first."""
    first, *others = reports
    rows = {level["who"]: level for level in first["levels"]}
    for report in others:
        learned = [one for one in report["levels"] if one["who"] in ("warm start", "after RL")]
        rows |= {f"{level['who']}, seed {report['seed']}": level for level in learned}
    keys = ("warm_seconds", "seconds", "evaluation_seconds")
    warm, trained, evaluated = (first[key] / 60 for key in keys)
    caption = (
        f"`{first['command']}`; warm start {warm:.1f} minutes, training {trained:.1f} minutes, "
        f"evaluations before its end {evaluated:.1f} minutes"
    )
    known = [key for key in COLUMNS if any(one.get(key) is not None for one in rows.values())]
    names = ["who", "held-out reward (95% interval)", "solved (95% interval)"]
    names += [COLUMNS[key] for key in known]
    head = f"{caption}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}\n"
    body = "\n".join(_row(who, level, known) for who, level in rows.items())
    return head + body + "\n" + _details(first["levels"])


def _details(levels: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the parts of the reward and of solved tasks by field, where known."""
    kinds = {"parts": "", "solved_by": "solved: "}
    names = {(kind, name): None for one in levels for kind in kinds for name in one.get(kind, {})}
    if not names:
        return ""
    rows = []
    for kind, name in sorted(names, key=lambda key: [*kinds].index(key[0])):
        cells = [f"{one[kind][name]:.2f}" if name in one.get(kind, {}) else "–" for one in levels]
        rows.append(f"| {kinds[kind]}{name} | {' | '.join(cells)} |")
    head = f"\n| mean | {' | '.join(one['who'] for one in levels)} |\n|---|{'---|' * len(levels)}\n"
    return head + "\n".join(rows) + "\n"


def _row(who: str, level: Mapping[str, Any], shares: Sequence[str]) -> str:
    reward = f"{level['reward']:.2f} ({level['low']:.2f} to {level['high']:.2f})"
    solved = f"{level['solved']:.0%} ({level['solved_low']:.0%} to {level['solved_high']:.0%})"
    cells = [_share(level.get(key), digits=0 if key == "greedy" else 1) for key in shares]
    return f"| {' | '.join([who, reward, solved, *cells])} |"


def _share(value: float | None, *, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}%}"


def example_names() -> list[str]:
    """Return the examples that have settings for the warm start and for training."""
    files = EXAMPLES.glob("*.toml")
    return sorted(file.stem for file in files if file.with_stem(f"{file.stem}_warm").exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=example_names(), help="name of an example")
    folder_help = "folder of NAME_example, where an interrupted call continues (default: runs)"
    parser.add_argument("--folder", type=Path, default=ROOT / "runs", help=folder_help)
    parser.add_argument("--seed", type=int, default=0, help="of imitation and of training")
    parser.add_argument("--greedy", action="store_true", help="evaluate at temperature 0, too")
    given = parser.parse_args()
    folder = given.folder.resolve() / f"{given.name}_example"
    example = Example(name=given.name, folder=folder, seed=given.seed)
    example.folder.mkdir(parents=True, exist_ok=True)
    levels = improve(example, greedy=given.greedy)
    write(example, levels)
    if found := problems(levels):
        sys.exit("; ".join(found))


if __name__ == "__main__":
    main()
