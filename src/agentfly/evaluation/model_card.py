"""The card of a trained model: held-out numbers, what they were measured with, curve, settings."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agentfly.agents.kind import WorkedExample
from agentfly.evaluation.run_sources import examples_of
from agentfly.models import zoo
from agentfly.observe import MetricsRecord
from agentfly.observe.estimate import interval_text
from agentfly.observe.recorded_run import RecordedRun

SETTINGS = "agentfly.toml"
CURVE = "reward.png"
EXAMPLE = "example.json"
_ON_THE_HUB = {"smollm2-135m-instruct": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Built-in models whose weights come from a model of the hub."""


def examples_file(source: str, examples: Collection[str]) -> str:
    """Return the name of a source's file of examples; with one source it needs no name."""
    plain = re.sub(r"[^\w.-]", "_", source)
    return "examples.jsonl" if len(examples) == 1 else f"examples_{plain}.jsonl"


def card(run: RecordedRun, step: int, *, has_curve: bool) -> Iterator[str]:
    """Yield the lines of the model card."""
    base = str(run.settings.get("model", {}).get("name", "unknown"))
    algorithm = str(run.settings.get("algorithm", {}).get("name", "-"))
    yield from ("---", "library_name: transformers", "pipeline_tag: text-generation")
    yield from _origin(base)
    yield from ("tags:", "- agentfly", "- reinforcement-learning", "- agent", "---", "")
    yield from (f"# {run.name}", "")
    yield (
        f"{_quoted(base)}, trained by reinforcement learning ({algorithm}, step {step} of "
        f"{run.planned_steps or run.step}) with AgentFly {version('agentfly')}."
    )
    yield ""
    yield from _numbers(run.records, step)
    yield from _how_to_use(run)
    if has_curve:
        yield from ("## Curve", "", f"![Reward by step]({CURVE})", "")
    yield from ("## Tasks", "")
    yield from _sources(run)
    yield from (
        "",
        "## Settings",
        "",
        f"As the run had them, in `{SETTINGS}`:",
        "",
    )
    yield from ("```toml", *_bare(published_config(run)), "```")


def _origin(base: str) -> Iterator[str]:
    """Yield the lines that link to the base model and name its license, where they are known."""
    if Path(base).exists() or Path(base).is_absolute():
        return
    if hub_id := base if base.count("/") == 1 else _ON_THE_HUB.get(base):
        yield f"base_model: {hub_id}"
    if base in zoo.names():
        yield f"license: {zoo.model_info(base).license.lower()}"


def _numbers(records: list[MetricsRecord], step: int) -> Iterator[str]:
    held_out = {one.step: one.metrics for one in records if "eval/reward" in one.metrics}
    if not held_out:
        yield from ("It was not evaluated on held-out tasks during the run.", "")
        return
    yield from ("## Held-out tasks", "", "| | reward (95% interval) | solved | tasks |")
    yield "|---|---|---|---|"
    for at in sorted({min(held_out), *(one for one in held_out if one == step), max(held_out)}):
        metrics = held_out[at]
        low, high = (metrics.get(f"eval/reward_{end}") for end in ("low", "high"))
        interval = "" if low is None or high is None else f" {interval_text(low, high)}"
        title = f"after step {at}" if at else "before training"
        yield (
            f"| {title}{' (these weights)' if at == step else ''} "
            f"| {metrics['eval/reward']:.2f}{interval} | {metrics.get('eval/solved', 0.0):.0%} "
            f"| {metrics.get('eval/tasks', 0.0):.0f} |"
        )
    yield ""


def _sources(run: RecordedRun) -> Iterator[str]:
    for source in run.settings.get("source", ()):
        parts = {name: source.get(name) for name in ("environment", "tasks", "tools", "reward")}
        known = ", ".join(f"{name} {_quoted(value)}" for name, value in parts.items() if value)
        yield f"- {source.get('name', 'default')}: {known}"


def _quoted(value: str | list[str]) -> str:
    """Quote names, without the folders of this machine."""
    names = [value] if isinstance(value, str) else value
    return ", ".join(f"`{Path(one).name if Path(one).is_absolute() else one}`" for one in names)


def _how_to_use(run: RecordedRun) -> Iterator[str]:
    """Yield what the scores were measured with, source by source, and commands that give it."""
    yield from ("## How to use", "")
    examples = examples_of(run)
    sources = run.settings.get("source", ())
    if not sources:
        yield (
            "The agent was made in Python, so its tools and system prompt are not known here: add "
            "those that it was trained with."
        )
        yield ""
    if examples:
        yield (
            "**The scores were measured with a worked example before every conversation**, with "
            "which the model was trained too. Without it they do not hold: the model may not call "
            "its tools at all."
        )
        yield ""
    for source in sources or [{"name": name} for name in examples]:
        name = str(source.get("name", "default"))
        yield from _source_use(run, source, examples.get(name), examples_file(name, examples))
    yield "`FOLDER` is the folder of this card."
    if examples:
        yield (
            "`agentfly eval` takes no worked example for a folder: evaluate the run itself, with "
            f"`agentfly eval {run.name}@best`, where the run's folder is."
        )
    yield ""


def _source_use(
    run: RecordedRun, source: Mapping[str, Any], example: WorkedExample | None, file: str
) -> Iterator[str]:
    name, kind = str(source.get("name", "default")), str(source.get("kind", "tools"))
    tools, system = list(source.get("tools", ())), source.get("system_prompt")
    yield from (f"### Tasks `{name}`", "", f"- Kind of agent: `{kind}`")
    if source.get("environment"):
        yield f"- Environment: `{source['environment']}`, with its tools and prompt"
    if tools:
        yield f"- Tools: {', '.join(f'`{tool}`' for tool in tools)}"
    yield f"- System prompt:{'' if system else ' none of the settings'}"
    if system:
        yield from ("", *_fenced("text", str(system)), "")
    limits = _limits(run, source)
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in limits.items())
    yield f"- Limits and sampling of the evaluation: {said or 'not recorded'}"
    if example is not None:
        lines = (json.dumps(one.to_dict(), ensure_ascii=False) for one in example.messages)
        yield f"- Worked example, before every conversation (also in `{EXAMPLE}` and `{file}`):"
        yield from ("", *_fenced("json", "\n".join(lines)))
    yield ""
    if source.get("environment"):
        return
    yield from _fenced(
        "bash", _chat_command(kind, tools, system, limits, file if example else None)
    )
    yield ""
    yield from _fenced("python", "\n".join(_python(name, kind, tools, system, limits, example)))
    yield ""


def _limits(run: RecordedRun, source: Mapping[str, Any]) -> dict[str, int | float]:
    """Return how held-out tasks were attempted, where the settings say it."""
    rollout = run.settings.get("rollout", {})
    found = {
        "temperature": run.settings.get("eval", {}).get("temperature"),
        "max_turns": source.get("max_turns") or rollout.get("max_turns"),
        "max_tokens": rollout.get("max_tokens"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _chat_command(
    kind: str,
    tools: list[str],
    system: str | None,
    limits: Mapping[str, int | float],
    examples: str | None,
) -> str:
    words = ["agentfly", "chat", "FOLDER", "--kind", kind]
    words += ["--tools", ",".join(tools)] if tools else []
    words += ["--system", system] if system else []
    words += ["--examples", f"FOLDER/{examples}"] if examples else []
    for name, value in limits.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def _python(
    source: str,
    kind: str,
    tools: list[str],
    system: str | None,
    limits: Mapping[str, int | float],
    example: WorkedExample | None,
) -> Iterator[str]:
    sampling = {name: value for name, value in limits.items() if name != "max_turns"}
    given = ", ".join(f"{name}={value}" for name, value in sampling.items())
    yield from ("from pathlib import Path", "", "from agentfly import Agent, SamplingParams")
    yield "from agentfly.agents.registry import find_tools"
    if example is not None:
        yield "from agentfly.agents.trial_file import read_trials"
    yield from ("", 'model = Path("FOLDER")', "agent = Agent(", "    model,")
    yield f"    tools=[tool for name in {tools!r} for tool in find_tools(name)],"
    yield f"    kind={kind!r},"
    if system:
        yield f"    system_prompt={system!r},"
    if "max_turns" in limits:
        yield f"    max_turns={limits['max_turns']},"
    yield from (f"    sampling=SamplingParams({given}),", ")")
    if example is not None:
        yield f'example = read_trials(model / "{EXAMPLE}")[{source!r}].example'
        yield "agent = agent.with_example(example)"


def _fenced(language: str, text: str) -> Iterator[str]:
    """Yield text in a fence that is longer than any within it."""
    longest = max((len(ticks) for ticks in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}{language}", *text.splitlines(), fence)


def published_config(run: RecordedRun) -> str:
    """Return a run's settings without the folder of runs, a path of the machine that it ran on."""
    return re.sub(r"^folder = .*\n", "", run.config, count=1, flags=re.MULTILINE)


def _bare(config: str) -> Iterator[str]:
    """Yield the lines of a settings file without comments and empty lines."""
    for line in config.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line
