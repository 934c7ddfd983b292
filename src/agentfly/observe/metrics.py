"""Names and meanings of all metrics, for code, files and documentation.

A word in angle brackets stands for any word: `stop/<reason>` documents `stop/answered`. Metrics of
one of several task sources have the source's name before them:
`source/math/reward/mean` is `reward/mean` of the source `math`.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from agentfly.errors import ConfigError

SOURCE = "source/"
"""Prefix of the metrics of one task source: `source/<name>/<metric>`."""

METRICS: Mapping[str, str] = {
    "reward/mean": "Mean reward of the scored chains; failed ones are left out, not counted as 0.",
    "reward/std": "Standard deviation of the scored chains' rewards.",
    "reward/min": "Lowest reward of a chain.",
    "reward/max": "Highest reward of a chain.",
    "reward/solved": "Share of the scored chains with a reward of at least 1.",
    "reward/flat_groups": "Share of the groups in which no two rewards differ, so that there is "
    "nothing to learn from comparing them.",
    "reward/part/<name>": "Mean of one part of the reward, over the chains that have it.",
    "chains/count": "Chains that ended in this step.",
    "chains/groups": "Groups: visits to a task, each with its chains.",
    "chains/scored": "Chains that have a reward.",
    "chains/failed": "Chains that are neither scored nor trained on: their surroundings failed, or "
    "they ran out of time.",
    "chains/failed_share": "Failed chains, of all chains.",
    "chains/time_limit_share": "Chains that ran out of time, of all chains. They are not trained "
    "on: a large share means that mostly short chains are.",
    "chains/retried": "Chains that had to be tried more than once.",
    "chains/surplus": "Chains that were begun in addition and not needed (`rollout.spare_chains`).",
    "chains/kept_length_ratio": "Mean duration of the kept chains, over that of all that were "
    "begun, surplus ones as far as they came. Clearly below 1, short chains are favored.",
    "chains/left_out_groups": "Groups that were sampled and not learned from: without a chain that "
    "can be trained on, or replaced because they had no spread.",
    "tools/calls": "Tool calls per chain, on average.",
    "tools/invalid_share": "Share of the calls that were wrong: unreadable, of no tool, with "
    "impossible arguments, or of an action that the environment refused.",
    "tools/unknown_share": "Share of the calls that named a tool which does not exist: the "
    "hallucination rate of arXiv:2507.14897.",
    "tools/error_share": "Share of the calls in which the tool raised.",
    "tools/timeout_share": "Share of the calls in which the tool ran out of time.",
    "tools/failed_share": "Share of the calls that did not succeed, for any reason.",
    "tools/repaired_share": "Share of the calls whose JSON was repaired before they ran.",
    "actions/invalid_share": "Share of the actions in text that the environment says were "
    "impossible (`Step.invalid`).",
    "turns/mean": "Turns per chain, on average.",
    "turns/max": "Turns of the chain with the most.",
    "tokens/sampled": "Tokens that the model sampled, over all chains.",
    "tokens/per_chain": "Sampled tokens per chain, on average.",
    "tokens/per_turn": "Sampled tokens per turn, on average.",
    "tokens/longest": "Tokens of the longest stream: prompts, observations and sampled ones.",
    "tokens/per_second": "Sampled tokens per second of the sampling stage.",
    "stop/<reason>": "Share of the chains that ended for this reason.",
    "failures/<cause>": "Chains that failed by this cause, for example `failures/EnvError`.",
    "staleness/mean": "Versions by which the weights that sampled a token were behind, mean "
    "over tokens.",
    "staleness/max": "The same for the token that was sampled by the oldest weights.",
    "time/generation": "Seconds that a chain waited for generation, mean over chains.",
    "time/tools": "Seconds that a chain waited for tools, mean over chains.",
    "time/environments": "Seconds that a chain waited for its environment, mean over chains.",
    "time/rewards": "Seconds that a chain waited for its reward, mean over chains.",
    "time/queue": "Seconds that a chain waited to be admitted, or for a free environment, mean "
    "over chains.",
    "queue/finished_groups": "Groups that were finished and left for a later step, when the step "
    "took its own, in an asynchronous run.",
    "queue/groups_in_flight": "Groups whose chains were still running then.",
    "time/sampling": "Seconds that the step spent sampling and scoring its chains; in an "
    "asynchronous run, seconds since the step before took its groups.",
    "time/waiting_for_groups": "Seconds that the learner of an asynchronous run waited for groups: "
    "with much of it, sampling is the bottleneck.",
    "time/waiting_for_learner": "Seconds in which the bound on staleness kept an asynchronous run "
    "from starting a group: with much of it, learning is the bottleneck.",
    "time/training": "Seconds that the step spent on forward and backward passes and updates.",
    "time/learner/<phase>": "Seconds of that in one phase of the learner, for example `forward`.",
    "time/publishing": "Seconds that the step spent publishing the new weights to the engine.",
    "time/evaluating": "Seconds spent on held-out tasks.",
    "time/saving": "Seconds that writing the checkpoint before this step took.",
    "time/step": "Seconds of the whole step.",
    "env/<name>/leased": "Instances of an environment that chains hold at the end of the step.",
    "env/<name>/waiting": "Chains that wait for one.",
    "env/<name>/warm": "Instances that are ready and not leased.",
    "env/<name>/created": "Instances made since the run began.",
    "env/<name>/recycled": "Number of times an instance was reset and leased again.",
    "env/<name>/crashed": "Instances that broke, hung or could not be reset.",
    "env/<name>/lease_p50": "Seconds until a chain got its instance, half of the leases.",
    "env/<name>/lease_p99": "The same for 99 of 100 leases.",
    "cluster/nodes": "Nodes of the Ray cluster that are alive.",
    "cluster/lost_nodes": "Nodes that died since the run began.",
    "cluster/workers": "Actors of the run: pools of environments and engine replicas.",
    "cluster/lost_workers": "Actors that died, with their nodes or alone.",
    "cluster/memory_mb": "Memory of the actors' processes, as of their last report.",
    "cluster/calls": "Calls that the actors answered.",
    "cluster/tasks": "Calls of heavy tools and rewards that were sent to the cluster.",
    "eval/reward": "Held-out reward: mean over tasks of the mean over a task's chains. One that "
    "ran out of time counts with `eval.time_limit_reward`; failed ones are left out.",
    "eval/reward_low": "Lower end of its 95% interval, over tasks: Gaffke's, which stays within "
    "the reward's range; Student's where that is not known.",
    "eval/reward_high": "Upper end of its 95% interval.",
    "eval/loss": "Held-out loss: mean negative log-likelihood of the demonstrated tokens.",
    "eval/exact_turns": "Mean probability that a held-out turn is sampled token for token as it "
    "was demonstrated.",
    "eval/exact_turns_min": "The same at the place in the conversation (first turn, second, …) "
    "where it is lowest, among places with at least 20 held-out turns.",
    "eval/solved": "Held-out solved share: mean over tasks of a task's share of solved chains. "
    "One that ran out of time is not solved; failed ones are left out.",
    "eval/solved_low": "Lower end of its 95% interval: Wilson's if each task was solved or not, "
    "Gaffke's if some were solved in part.",
    "eval/solved_high": "Upper end of its 95% interval.",
    "eval/pass@<k>": "Probability that at least one of k chains solves a held-out task, unbiased "
    "(arXiv:2107.03374), mean over the tasks of which at least k chains count.",
    "eval/tasks": "Held-out tasks of which at least one chain counts.",
    "eval/chains": "Chains on held-out tasks.",
    "eval/failed_share": "Chains that the numbers leave out because environment, engine, reward or "
    "the agent's own code failed, or nothing gave them a reward, of all chains on held-out tasks.",
    "eval/time_limit_share": "Chains that ran out of time, of all chains on held-out tasks; they "
    "count as not solved.",
}


def require_documented(names: Iterable[str], *more: Mapping[str, str]) -> None:
    """Raise ConfigError for names that neither `METRICS` nor `more` documents.

    >>> require_documented(["reward/mean", "stop/answered", "source/math/turns/max"])
    >>> require_documented(["reward/median"])
    Traceback (most recent call last):
    agentfly.errors.ConfigError: undocumented metrics: reward/median. ...
    """
    known = [_pattern(name) for documented in (METRICS, *more) for name in documented]
    unknown = sorted({name for name in names if not _documented(name, known)})
    if unknown:
        raise ConfigError(
            f"undocumented metrics: {', '.join(unknown)}. Add what each one means to the catalog "
            "of the package that makes it"
        )


@cache
def explain(name: str) -> str:
    """Return what a metric of this catalog means; empty for one of another catalog.

    >>> explain("source/math/turns/max")
    'Turns of the chain with the most.'
    """
    for documented, meaning in METRICS.items():
        if _documented(name, [_pattern(documented)]):
            return meaning
    return ""


def metrics_page(*more: Mapping[str, str]) -> str:
    """Return the documentation of all metrics as Markdown, one table per namespace."""
    everything = {
        name: text for documented in (METRICS, *more) for name, text in documented.items()
    }
    tables = dict.fromkeys(name.partition("/")[0] for name in everything)
    parts = [_PAGE]
    for space in tables:
        rows = [(n, text) for n, text in everything.items() if n.partition("/")[0] == space]
        lines = "\n".join(f"| `{name}` | {text} |" for name, text in rows)
        parts.append(f"\n## {space}\n\n| name | meaning |\n|---|---|\n{lines}\n")
    return "".join(parts)


_PAGE = """\
# Metrics

Every step of a run writes one line of metrics to `metrics.jsonl`, and the same numbers to the
trackers. Only finite numbers are written: a share of nothing is left out, it is not 0. A word in
angle brackets stands for any word. In a run with several task sources, `source/<name>/` before a
metric restricts it to one of them.
"""


def _documented(name: str, known: list[re.Pattern[str]]) -> bool:
    if any(pattern.fullmatch(name) for pattern in known):
        return True
    if not name.startswith(SOURCE):
        return False
    # A source's name may contain slashes, so its end is not known.
    steps = name.removeprefix(SOURCE).split("/")
    rests = ("/".join(steps[cut:]) for cut in range(1, len(steps)))
    return any(pattern.fullmatch(rest) for rest in rests for pattern in known)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"<\w+>", ".+", re.escape(name)))
