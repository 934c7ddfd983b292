"""A short trial at the start of a run: does the model call its tools, and does an example help?

The decision is made once and kept with the run, in example.json: a resumed run reads the file. The
chains are kept in trajectories/trial.jsonl, and `agentfly show RUN --trial` shows them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.kind import ReAct, Tags, ToolCalling, WorkedExample
from agentfly.agents.source import Source
from agentfly.agents.trial_file import Trial, read_trials, write_trials
from agentfly.agents.worked_example import NUM_CHAINS as CHAINS_WITH_OPENING
from agentfly.agents.worked_example import find_example
from agentfly.observe import RunProgress, TrajectoryWriter, summarize
from agentfly.types import (
    Message,
    SamplingParams,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Trajectory,
)
from agentfly.types.short_text import printable, shorten

NUM_TASKS = 8
"""Tasks of each source that are tried."""
NUM_CHAINS = 2
MAX_TOKENS = 64
"""Tokens of a turn in the trial."""
MAX_SHOWN = 200
"""Characters of an example's message that are printed."""
MIN_CALLING = 0.25
"""Share of chains with a successful call from which on a model needs no example."""
MIN_SOLVED = 0.5
"""Share of solved chains from which on a model needs no calls."""


async def with_examples(
    agents: Mapping[str, Agent],
    sources: Sequence[Source],
    tasks: Sequence[Task],
    *,
    file: Path,
    chains_file: Path,
    seed: int,
    begun: bool,
    progress: RunProgress,
) -> dict[str, Agent]:
    """Return the agents, those with an example whose model calls no tools without one.

    Args:
        agents: Agents with the engine of the run, by source.
        sources: All sources of the run.
        tasks: Tasks of all sources.
        file: Where the decision is kept.
        chains_file: Where the chains of the trial are kept.
        seed: Seed of the trial.
        begun: Steps were taken already: without a file the run goes on without examples.
        progress: Where the outcome is shown.
    """
    trials = read_trials(file)
    if not trials and not begun:
        trials = await _try_sources(agents, sources, tasks, chains_file, seed, progress)
        if trials:
            write_trials(file, trials)
    examples = {name: trial.example for name, trial in trials.items() if trial.example}
    return {
        name: agent.with_example(examples[name]) if name in examples else agent
        for name, agent in agents.items()
    }


async def _try_sources(
    agents: Mapping[str, Agent],
    sources: Sequence[Source],
    tasks: Sequence[Task],
    chains_file: Path,
    seed: int,
    progress: RunProgress,
) -> dict[str, Trial]:
    tried: dict[str, list[Task]] = {}
    for source in sources:
        own = [task for task in tasks if task.source == source.name][:NUM_TASKS]
        if needs_trial(source, own):
            tried[source.name] = own
    if not tried:
        return {}
    with _new_chains_file(chains_file) as writer:
        return {
            name: await try_tools(
                agents[name], own, seed=seed, progress=progress, keep=writer.write
            )
            for name, own in tried.items()
        }


def _new_chains_file(path: Path) -> TrajectoryWriter:
    path.unlink(missing_ok=True)  # of a trial that was interrupted
    return TrajectoryWriter(path)


def needs_trial(source: Source, tasks: Sequence[Task]) -> bool:
    """Return whether a source leaves it to the run to add an example, and could use one."""
    agent = source.agent
    shown = any(message.role == "assistant" for task in tasks for message in task.messages)
    return (
        source.example == "auto"
        and type(agent.kind) is ToolCalling
        and agent.kind.example is None
        and bool(agent.tools.specs)
        and agent.environment is None
        and not shown
    )


async def try_tools(
    agent: Agent,
    tasks: Sequence[Task],
    *,
    seed: int,
    progress: RunProgress,
    keep: Callable[[Trajectory], None],
) -> Trial:
    """Let the model attempt a few tasks, and look for an example if it calls no tools."""

    def count_chain(chain: Trajectory) -> None:
        keep(chain)
        progress.chains_done(1)

    progress.message(f"trying {len(tasks) * NUM_CHAINS} chains: does the model call its tools?")
    sampling = SamplingParams(
        temperature=agent.sampling.temperature,
        max_tokens=min(MAX_TOKENS, agent.sampling.max_tokens),
    )
    progress.trial_started(len(tasks) * NUM_CHAINS)
    result = await agent.run(
        tasks,
        num_chains=NUM_CHAINS,
        max_turns=2,
        sampling=sampling,
        seed=seed,
        on_trajectory=count_chain,
    )
    chains = result.trajectories
    calling = sum(map(_calls_a_tool, chains))
    solved = summarize(chains).solved_share or 0.0
    said = f"the model calls its tools in {calling} of {len(chains)} chains"
    if calling >= MIN_CALLING * len(chains) or solved >= MIN_SOLVED:
        progress.message(f"{said}: no example is needed")
        return Trial(chains=len(chains), calling=calling, example=None)
    progress.message(f"{said}: looking for a call that solves a task, to show it one")
    progress.trial_started(len(tasks) * CHAINS_WITH_OPENING)
    example = await find_example(agent, tasks, seed=seed, on_trajectory=count_chain)
    tool = agent.tools.specs[0]
    progress.message(_announce(example) if example else where_none_is_found(tool))
    return Trial(chains=len(chains), calling=calling, example=example)


def _announce(example: WorkedExample) -> str:
    lines = [f"  {message.role}: {_shown(message)}" for message in example.messages]
    return "\n".join(
        [
            "this worked example, which the reward accepts, is shown before every conversation; it "
            'is kept in example.json, and example = "never" leaves it out:',
            *lines,
        ]
    )


def _shown(message: Message) -> str:
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return printable(shorten(" ".join([message.content, *calls]).strip(), MAX_SHOWN))


def where_none_is_found(tool: ToolSpec) -> str:
    """Say what to do where no call that was tried solves a task."""
    return (
        "no call that was tried solves a task (`agentfly show RUN --trial` shows them): the run "
        "goes on without an example, and may learn nothing. Write a worked example yourself: "
        f"{_recipe(tool)}. First tool in the documentation is a complete file. Or show the "
        "model some calls first (agentfly sft), or take a larger model"
    )


def _recipe(tool: ToolSpec) -> str:
    """Say what to put into rows and settings, in the form that suits the tool."""
    required = list(tool.parameters.get("required", ()))
    name, answer = "react", "Final Answer: RESULT"
    kind: ReAct | Tags = ReAct()
    if len(required) == 1:
        name, kind, answer = "tags", Tags(), "The answer is RESULT."
    arguments = json.dumps(dict.fromkeys(required, "…"), ensure_ascii=False)
    call = ToolCall(id="", name=tool.name, arguments=arguments)
    said = kind.format([tool]).write([call])
    (reply,) = kind.reply([call], [ToolResult(observation="RESULT")])
    turns = [
        ("user", "a question"),
        ("assistant", said),
        ("user", reply.content),
        ("assistant", answer),
        ("user", "the row's own question"),
    ]
    row = {"messages": [{"role": role, "content": text} for role, text in turns]}
    shown = json.dumps(row, ensure_ascii=False)
    return f'kind = "{name}" in [[source]], and rows such as {shown}'


def _calls_a_tool(chain: Trajectory) -> bool:
    return any(result.status is ToolStatus.OK for turn in chain.turns for result in turn.results)
