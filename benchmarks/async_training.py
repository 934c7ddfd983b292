"""How much time the asynchronous loop saves, against the bound max(sampling, learning).

    simulated    the real loop in virtual time: heavy-tailed tools, and a learner that takes as long
                 as sampling does
    real         the model `tiny` and its learner, with a tool that takes most of the sampling time
                 and as many epochs as make learning take about as long as sampling; its rate is
                 0, so that both runs sample and learn chains of the same lengths

Each is run once with `max_staleness` 0 and once with 1. The bound is what the synchronous run spent
on the longer of its two stages.

Run with `make bench-async`; `--simulated` leaves out the real model.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from benchmarks.report import report
from benchmarks.simulated_training import Simulated, Simulation, simulate

from agentfly.observe import RunProgress
from agentfly.types import Seed

SIMULATED_STEPS = 30
SLOWEST_TOOL = 20.0
"""Seconds after which a tool's own limit ends it."""
REAL_STEPS = 8
TOOL_SHARE = 0.7
"""Least share of the sampling time that the real run's tool has to take."""
TOOL_TO_GENERATION = 3.0
"""Seconds in the real run's tool for each second of generation."""
TURNS = 2
"""Turns of the real run's chains, each of which calls the tool."""
AIMS = {
    "simulated_speedup": "≥ 1.6",
    "simulated_over_bound": "≤ 1.15",
    "real_over_bound": "≤ 1.25",
    "real_tool_share": f"≥ {TOOL_SHARE}",
}


def generation(seed: Seed) -> float:
    """Draw the seconds of one turn's generation: a mean of 1."""
    return seed.random().lognormvariate(-0.125, 0.5)


def heavy_tailed_tool(seed: Seed) -> float:
    """Draw the seconds of one call: mostly below 1, sometimes as many as the tool is allowed."""
    return min(SLOWEST_TOOL, 0.5 * seed.random().paretovariate(1.2))


def in_simulation(simulation: Simulation) -> Simulated:
    with tempfile.TemporaryDirectory() as folder:
        return simulate(simulation, Path(folder))


def simulated() -> dict[str, float]:
    """Compare the loops in virtual time."""
    simulation = Simulation(
        max_staleness=0,
        steps=SIMULATED_STEPS,
        tasks_per_step=8,
        num_chains=8,
        max_concurrent=64,
        max_turns=6,
        generation=generation,
        tools=heavy_tailed_tool,
        learning=lambda _: 0.0,
    )
    sampling = in_simulation(simulation).seconds
    learning = sampling / SIMULATED_STEPS
    paced = replace(simulation, learning=lambda _: learning)
    synchronous = in_simulation(paced)
    ahead = in_simulation(replace(paced, max_staleness=1))
    assert max(ahead.learner.ages) <= 1
    return {
        "simulated_sampling_s": sampling,
        "simulated_learning_s": synchronous.seconds_learning,
        "simulated_synchronous_s": synchronous.seconds,
        "simulated_asynchronous_s": ahead.seconds,
        "simulated_speedup": synchronous.seconds / ahead.seconds,
        "simulated_over_bound": ahead.seconds / max(sampling, synchronous.seconds_learning),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRun:
    """Seconds of a run of a real model, over its steps after the first."""

    total: float
    sampling: float
    learning: float
    tools: float
    """Seconds that a chain waited for its tool, mean over chains."""


def real_run(max_staleness: int, *, tool_seconds: float, epochs: int) -> RealRun:
    """Train `tiny` on a task whose tool calls take a fixed time."""
    from agentfly import Agent, Source, Trainer, reward, tool
    from agentfly.config import RunSettings
    from agentfly.types import Message, Task, ToolCall, ToolResult, ToolSpec

    @tool
    async def wait() -> str:
        """Wait as an API or a simulator would."""
        await asyncio.sleep(tool_seconds)
        return "ready"

    @reward
    def vowels(final_response: str) -> float:
        """Count vowels, which differ from chain to chain."""
        return sum(letter in "aeiou" for letter in final_response) / (1 + len(final_response))

    class AlwaysCalls:
        """Kind of agent whose every turn is a call, whatever the model wrote."""

        def open(
            self, task: Task, tools: Sequence[ToolSpec], observation: str | None
        ) -> list[Message]:
            del tools, observation
            return [Message(role="user", content=str(task.fields["question"]))]

        def read(self, message: Message) -> Message:
            call = ToolCall(id="c", name="wait", arguments="{}")
            return replace(message, tool_calls=(call,))

        def reply(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[Message]:
            del calls
            return [Message(role="user", content=result.observation) for result in results]

    with tempfile.TemporaryDirectory() as folder:
        settings = RunSettings.model_validate(
            {
                "name": "run",
                "folder": folder,
                "model": {"name": "tiny"},
                "rollout": {
                    "tasks_per_step": 8,
                    "num_chains": 8,
                    "max_staleness": max_staleness,
                    "max_tokens": 16,
                    "max_turns": TURNS,
                },
                "train": {"steps": REAL_STEPS, "epochs": epochs, "lr": 0.0},
                "eval": {"at_start": False, "at_end": False, "every": 0},
                "checkpoint": {"every": 10**6},
                "track": {"trackers": []},
            }
        )
        rows = [{"id": f"task{i}", "question": f"Say {i}."} for i in range(64)]
        agent = Agent(tools=[wait], reward=vowels, kind=AlwaysCalls())
        quiet = RunProgress(quiet=True)
        result = Trainer(Source(agent=agent, tasks=rows), settings, progress=quiet).run()
        steps = [record.metrics for record in result.metrics if "time/step" in record.metrics][1:]
    return RealRun(
        total=sum(metrics["time/step"] for metrics in steps),
        sampling=sum(metrics["time/sampling"] for metrics in steps),
        learning=sum(metrics["time/training"] for metrics in steps),
        tools=fmean(metrics["time/tools"] for metrics in steps),
    )


def real() -> dict[str, float]:
    """Compare the loops with a real model."""
    alone = real_run(0, tool_seconds=0.0, epochs=1)
    tool_seconds = TOOL_TO_GENERATION * alone.sampling / (REAL_STEPS - 1) / TURNS
    epochs = max(1, round((1 + TOOL_TO_GENERATION) * alone.sampling / alone.learning))
    synchronous, ahead = (real_run(k, tool_seconds=tool_seconds, epochs=epochs) for k in (0, 1))
    per_step = synchronous.sampling / (REAL_STEPS - 1)
    return {
        "real_epochs": float(epochs),
        "real_sampling_s": synchronous.sampling,
        "real_learning_s": synchronous.learning,
        "real_synchronous_s": synchronous.total,
        "real_asynchronous_s": ahead.total,
        "real_tool_share": synchronous.tools / per_step,
        "real_speedup": synchronous.total / ahead.total,
        "real_over_bound": ahead.total / max(synchronous.sampling, synchronous.learning),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulated", action="store_true", help="leave out the real model")
    given = parser.parse_args()
    numbers = simulated() | ({} if given.simulated else real())
    report("async", numbers, aims={key: aim for key, aim in AIMS.items() if key in numbers})


if __name__ == "__main__":
    main()
