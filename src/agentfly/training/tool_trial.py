"""A short trial at the start of a run: does the model call its tools, and does an example help?

The decision is made once and kept with the run, in example.json: a resumed run reads the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from agentfly.agents import Agent
from agentfly.agents.kind import ToolCalling
from agentfly.agents.source import Source
from agentfly.agents.trial_file import Trial, read_trials, write_trials
from agentfly.agents.worked_example import NUM_CHAINS as CHAINS_WITH_OPENING
from agentfly.agents.worked_example import find_example
from agentfly.observe import RunProgress, summarize
from agentfly.types import SamplingParams, Task, ToolStatus, Trajectory

NUM_TASKS = 8
"""Tasks of each source that are tried."""
NUM_CHAINS = 2
MAX_TOKENS = 64
"""Tokens of a turn in the trial."""
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
        seed: Seed of the trial.
        begun: Steps were taken already: without a file the run goes on without examples.
        progress: Where the outcome is shown.
    """
    trials = read_trials(file)
    if not trials and not begun:
        for source in sources:
            own = [task for task in tasks if task.source == source.name][:NUM_TASKS]
            if needs_trial(source, own):
                trial = await try_tools(agents[source.name], own, seed=seed, progress=progress)
                trials[source.name] = trial
        if trials:
            write_trials(file, trials)
    examples = {name: trial.example for name, trial in trials.items() if trial.example}
    return {
        name: agent.with_example(examples[name]) if name in examples else agent
        for name, agent in agents.items()
    }


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
    agent: Agent, tasks: Sequence[Task], *, seed: int, progress: RunProgress
) -> Trial:
    """Let the model attempt a few tasks, and look for an example if it calls no tools."""
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
        on_trajectory=lambda _: progress.chains_done(1),
    )
    chains = result.trajectories
    calling = sum(map(_calls_a_tool, chains))
    solved = summarize(chains).solved_share or 0.0
    said = f"the model calls its tools in {calling} of {len(chains)} chains"
    if calling >= MIN_CALLING * len(chains) or solved >= MIN_SOLVED:
        progress.message(f"{said}: no example is needed")
        return Trial(chains=len(chains), calling=calling, example=None)
    progress.message(f"{said}: a call is begun for it, to find one that solves a task")
    progress.trial_started(len(tasks) * CHAINS_WITH_OPENING)
    example = await find_example(
        agent, tasks, seed=seed, on_trajectory=lambda _: progress.chains_done(1)
    )
    if example is None:
        progress.message(
            "no chain solved a task by a call: the run goes on without an example, and may learn "
            "nothing. Put one or two worked examples into the messages of the tasks, with "
            'kind = "tags" for tools of one parameter; show the model some calls first (agentfly '
            "sft); or take a larger model"
        )
    else:
        progress.message(
            f"a chain that solved task {example.task_id!r} is shown before every conversation, "
            'as a worked example; it is kept in example.json, and example = "never" leaves it out'
        )
    return Trial(chains=len(chains), calling=calling, example=example)


def _calls_a_tool(chain: Trajectory) -> bool:
    return any(result.status is ToolStatus.OK for turn in chain.turns for result in turn.results)
