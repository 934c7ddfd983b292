"""A run of the real loop in virtual time: a scripted engine, and a learner that only waits.

Everything but the tokens and the gradients is what a real run has: loop, sampler, chains, tools,
ledger, publisher, run folder. Hours pass in seconds, always in the same way.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentfly import Agent, Context, Limits, ScriptedEngine, reward, tool
from agentfly.algorithms import make_algorithm
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.chat.mask import all_sampled
from agentfly.config import RunSettings
from agentfly.engines import ScriptedTurn
from agentfly.observe import RunProgress
from agentfly.observe.findings import Findings
from agentfly.observe.run_folder import RunFolder
from agentfly.observe.trackers import MetricsFile, Trackers
from agentfly.resources import EnvironmentManager
from agentfly.runtime.clock import LoopClock
from agentfly.tasks import Ledger
from agentfly.testing import run_in_virtual_time
from agentfly.training.assembly import make_sampler
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.loop import Loop
from agentfly.training.publisher import Publisher
from agentfly.training.rollout_stages import ChainRunner, Evaluator
from agentfly.training.train_result import Target
from agentfly.training.watchdog import Watchdog
from agentfly.types import (
    Completion,
    Group,
    MaskPolicy,
    OnToken,
    Request,
    SamplingParams,
    Seed,
    SharedTensors,
    StepMetrics,
    Task,
    Weights,
)

CALL = '<tool_call>\n{"name": "work", "arguments": {}}\n</tool_call>'
Draw = Callable[[Seed], float]
"""Draws the seconds that something takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Settings of a simulated run."""

    max_staleness: int
    steps: int = 6
    tasks_per_step: int = 4
    num_chains: int = 4
    max_concurrent: int = 64
    max_turns: int = 4
    generation: Draw
    """Seconds of one generation."""
    tools: Draw
    """Seconds of one tool call."""
    learning: Draw
    """Seconds of one step's learning."""
    publishing: float = 0.0
    seed: int = 0
    algorithm: str = "grpo"


@dataclass(slots=True)
class FakeLearner:
    """Learner at the protocol, which records the age of every token that it is given."""

    version: int = 0
    ages: list[int] = field(default_factory=list)
    """Updates by which each trained token was behind."""
    trained: list[str] = field(default_factory=list)
    """Ids of the groups, in the order in which they were trained."""

    gives: Sequence[type[Weights]] = (SharedTensors,)

    def learn(
        self, groups: Sequence[Group], mask: MaskPolicy, *, version: int | None
    ) -> StepMetrics:
        del mask, version
        for group in groups:
            self.trained.append(group.id)
            turns = (turn for member in group.members for turn in member.turns)
            for completion in (turn.completion for turn in turns if turn.completion):
                self.ages += [self.version - sampled for sampled in completion.version_of_each()]
        self.version += 1
        return StepMetrics(metrics={"updates": 1.0}, seconds={}, updates=1)

    def weights(self, form: type[Weights], folder: Path) -> Weights:
        del form, folder
        return SharedTensors()

    def save(self, folder: Path) -> None:
        (folder / "version").write_text(str(self.version))

    def restore(self, folder: Path) -> None:
        self.version = int((folder / "version").read_text())

    def export(self, folder: Path) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class SimulatedEngine(ScriptedEngine):
    """Scripted engine whose tokens have the versions of the times at which they are sampled.

    The learner's time passes in `paused`, which the loop enters to learn: chains go on meanwhile.
    """

    context_length = 1e6
    takes: frozenset[type[Weights]] = frozenset({SharedTensors})
    samples_exactly = False
    shares_tensors = True

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(
            self._script, tokenizer=ByteTokenizer(CHATML_TOKENS), latency=simulation.generation
        )
        self._simulation = simulation
        self._learned = 0
        self.seconds_learning = 0.0

    def _script(self, turn: ScriptedTurn) -> str:
        seed = Seed(self._simulation.seed).child("turns", turn.request.chain_id)
        turns = 1 + int(seed.uniform() * self._simulation.max_turns)
        return CALL if turn.request.turn + 1 < turns else "Done."

    async def sample(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        *,
        request: Request,
        deadline: float,
        on_token: OnToken | None = None,
    ) -> Completion:
        """Sample the first token at once, and the others when the completion ends."""
        first = self._version
        found = await super().sample(
            prompt_ids, params, request=request, deadline=deadline, on_token=on_token
        )
        rest = len(found.token_ids) - 1
        runs = ((first, 1), (self._version, rest)) if rest else ((first, 1),)
        return Completion(
            token_ids=found.token_ids,
            logprobs=found.logprobs,
            versions=runs,
            finish_reason=found.finish_reason,
        )

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        seconds = self._simulation.learning(Seed(self._simulation.seed).child(self._learned))
        self._learned += 1
        self.seconds_learning += seconds
        await asyncio.sleep(seconds)
        yield

    async def publish(self, weights: Weights, version: int) -> None:
        await asyncio.sleep(self._simulation.publishing)
        await super().publish(weights, version)


class InlineThread(ThreadPoolExecutor):
    """Executor without a thread, so that nothing but virtual time decides."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Results of a simulated run."""

    seconds: float
    """Virtual time of all steps."""
    seconds_learning: float
    learner: FakeLearner
    metrics: Sequence[Mapping[str, float]]
    """Metrics of each step."""


def simulate(simulation: Simulation, folder: Path) -> Simulated:
    """Run the loop to its end in virtual time."""
    return run_in_virtual_time(_simulate(simulation, folder))


async def _simulate(simulation: Simulation, folder: Path) -> Simulated:
    engine, learner = SimulatedEngine(simulation), FakeLearner()
    logged: list[Mapping[str, float]] = []
    async with opened_loop(simulation, folder, engine, learner, logged) as loop:
        started = asyncio.get_running_loop().time()
        await loop.run()
        seconds = asyncio.get_running_loop().time() - started
    return Simulated(
        seconds=seconds, seconds_learning=engine.seconds_learning, learner=learner, metrics=logged
    )


class _Logged(Trackers):
    def __init__(self, file: MetricsFile, metrics: list[Mapping[str, float]]) -> None:
        super().__init__(file, {})
        self._metrics = metrics

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        self._metrics.append(dict(metrics))
        super().log(metrics, step)


@asynccontextmanager
async def opened_loop(
    simulation: Simulation,
    folder: Path,
    engine: SimulatedEngine,
    learner: FakeLearner,
    logged: list[Mapping[str, float]],
) -> AsyncIterator[Loop]:
    """Put a loop together as a run does, from real parts but for engine and learner."""
    settings = _settings(simulation, folder)
    clock = LoopClock()
    with contextlib.ExitStack() as stack:
        run = stack.enter_context(RunFolder.create(folder / "run", config=""))
        ledger = stack.enter_context(Ledger.open(None, _tasks(), seed=Seed(simulation.seed)))
        chains = ChainRunner(
            agents={"default": _agent(simulation, engine)},
            clock=clock,
            max_concurrent=simulation.max_concurrent,
            retries=0,
        )
        progress = RunProgress(quiet=True)
        thread = InlineThread(1)
        findings = Findings(
            path=run.path / "findings.json",
            tasks=(),
            with_tools=frozenset(),
            algorithm=simulation.algorithm,
        )
        environments = EnvironmentManager({})
        async with environments:
            yield Loop(
                settings=settings,
                folder=run,
                engine=engine,
                learner=learner,
                publisher=Publisher(learner, engine, run.published_folder, thread, _no_check),
                mask=all_sampled,
                sampler=make_sampler(
                    chains,
                    ledger,
                    [],
                    make_algorithm(simulation.algorithm),
                    settings,
                    progress,
                    findings,
                ),
                evaluator=Evaluator(
                    chains=chains,
                    tasks=(),
                    settings=settings.eval,
                    seed=Seed(0),
                    on_chains=progress.chains_done,
                ),
                environments=environments,
                ledger=ledger,
                checkpoints=Checkpoints(run.checkpoints_folder),
                trackers=stack.enter_context(
                    closing(_Logged(MetricsFile(run.metrics_file), logged))
                ),
                progress=progress,
                watchdog=Watchdog(folder=run.stalls_folder, seconds=3600.0),
                findings=findings,
                target=Target(None, window=1),
                saved=None,
                _thread=thread,
            )


async def _no_check(version: int) -> None:
    del version


def _tasks() -> list[Task]:
    return [Task.from_row({"id": f"task{i}", "question": "Go."}) for i in range(64)]


def _settings(simulation: Simulation, folder: Path) -> RunSettings:
    return RunSettings.model_validate(
        {
            "name": "run",
            "folder": folder,
            "model": {"name": "simulated"},
            "algorithm": {"name": simulation.algorithm},
            "rollout": {
                "tasks_per_step": simulation.tasks_per_step,
                "num_chains": simulation.num_chains,
                "max_staleness": simulation.max_staleness,
                "max_concurrent": simulation.max_concurrent,
            },
            "train": {"steps": simulation.steps},
            "eval": {"at_start": False, "at_end": False},
            "checkpoint": {"every": 10**6},
        }
    )


def _agent(simulation: Simulation, engine: SimulatedEngine) -> Agent:
    @tool(timeout=1e6)
    async def work(context: Context) -> str:
        """Take a while."""
        await asyncio.sleep(simulation.tools(context.seed))
        return "worked"

    @reward
    def some(context: Context) -> float:
        """Return any reward."""
        return round(context.seed.uniform())

    limits = Limits(max_turns=simulation.max_turns, seconds=1e6)
    return Agent(engine, tools=[work], reward=some, limits=limits)
