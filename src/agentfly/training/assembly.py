"""Builds the parts of an RL run, new or resumed, before its loop starts, and closes them all."""

import logging
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from agentfly.agents.run_parts import RunParts
from agentfly.algorithms import Algorithm
from agentfly.config import EnvironmentSettings, RunSettings
from agentfly.engines import EngineSpec, make_engine
from agentfly.engines.factory import placed_on_cluster, samples_here
from agentfly.models.zoo import unseen_tools
from agentfly.observe import EventLog, RunProgress, read_metrics
from agentfly.observe.findings import Findings
from agentfly.observe.run_folder import RunFolder
from agentfly.resources import EnvironmentManager, Pooling, reporting
from agentfly.resources.placement import placement_of
from agentfly.resources.pooling import pooling_of
from agentfly.runtime.clock import LoopClock
from agentfly.tasks import Ledger
from agentfly.training.async_sampler import AsyncSampler
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.health import require_healthy, require_no_timeouts
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.memory import engine_cache, free_memory, report_memory
from agentfly.training.learner.policy import Policy, device_of
from agentfly.training.learner.sharded_learner import ShardedLearner
from agentfly.training.learner_processes import LearnerHosts, open_learner, serve_place
from agentfly.training.loop import Loop
from agentfly.training.publisher import publishing
from agentfly.training.rollout_stages import (
    ChainRunner,
    Evaluator,
    GroupPlanner,
    Sampler,
    StepSampler,
)
from agentfly.training.run_files import (
    describe_resume,
    enter_run_folder,
    fetching,
    open_run_trackers,
    remove_unless_started,
)
from agentfly.training.run_state import determinism, restore_state
from agentfly.training.sampler_check import SamplerCheck
from agentfly.training.staleness import StalenessWindow, oldest_version
from agentfly.training.task_mix import TaskMix, for_run
from agentfly.training.tool_trial import with_examples
from agentfly.training.train_result import Target
from agentfly.training.watchdog import Watchdog
from agentfly.types import EnvSpec, Group, Seed, TrainableEngine

if TYPE_CHECKING:
    from agentfly.cluster import RayCluster  # imports ray

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_run(
    parts: RunParts, task_mix: TaskMix, *, progress: RunProgress, resume: bool
) -> AsyncIterator[Loop]:
    """Open what a run needs and yield its loop; a resumed run continues at its last checkpoint."""
    settings = parts.settings
    with fetching(settings, progress):
        task_mix = for_run(task_mix, settings)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(
            enter_run_folder(settings, progress, resume=resume, base=parts.base)
        )
        stack.enter_context(determinism(settings))
        with remove_unless_started(folder, resume=resume):
            loop = await _open_loop(parts, task_mix, folder, stack, progress, resume=resume)
        yield loop


async def _open_loop(
    parts: RunParts,
    task_mix: TaskMix,
    folder: RunFolder,
    stack: AsyncExitStack,
    progress: RunProgress,
    *,
    resume: bool,
) -> Loop:
    """Open the parts of a loop on a stack: ledger, learner, engine, environments, chains."""
    settings = parts.settings
    checkpoints = Checkpoints(folder.checkpoints_folder, keep=settings.checkpoint.keep)
    saved = checkpoints.latest()
    step = saved.step if saved else 0
    ledger = stack.enter_context(_ledger(folder, task_mix, settings, step))
    _go_back_to(step, folder, progress, resume=resume)
    cluster = await stack.enter_async_context(_cluster(settings, folder))
    hosts = _learner_hosts(settings, cluster)
    learner = await stack.enter_async_context(open_learner(parts, folder.path, hosts=hosts))
    cache = _cache_bytes(learner, settings)
    finished = restore_state(saved, learner) if saved else []
    spec = _engine_spec(learner.policy, task_mix, settings, folder)
    engine = _engine(replace(spec, version=step, cache_bytes=cache), parts, cluster)
    stack.push_async_callback(engine.close)
    check = stack.enter_context(SamplerCheck(learner, engine, settings.engine))
    publisher = await stack.enter_async_context(
        publishing(learner, engine, folder.published_folder, check.run_if_due)
    )
    await publisher.publish_first(step)
    environments = await stack.enter_async_context(
        open_environments(task_mix, settings.environments, cluster)
    )
    stack.enter_context(reporting(environments.snapshot, folder.path))
    begun = step > 0
    chains = await stack.enter_async_context(
        _chain_runner(
            engine, environments, task_mix, settings, folder, cluster, progress, begun=begun
        )
    )
    trackers = open_run_trackers(folder, settings, step, resume=resume)
    findings = _findings(folder, task_mix, parts, step)
    sampler = make_sampler(chains, ledger, finished, parts.algorithm, settings, progress, findings)
    return Loop(
        settings=settings,
        folder=folder,
        engine=engine,
        learner=learner,
        publisher=publisher,
        mask=parts.mask,
        sampler=sampler,
        evaluator=_evaluator(chains, task_mix, settings, progress),
        environments=environments,
        ledger=ledger,
        checkpoints=checkpoints,
        trackers=stack.enter_context(closing(trackers)),
        progress=progress,
        watchdog=_watchdog(folder, settings, chains),
        findings=findings,
        target=_target(folder, settings),
        saved=saved,
    )


def _go_back_to(step: int, folder: RunFolder, progress: RunProgress, *, resume: bool) -> None:
    """Report where a resumed run continues, and move away the chains of steps that it repeats."""
    if resume:
        progress.message(describe_resume(folder, step))
    if undone := folder.set_aside_trajectories_after(step):
        _log.info("chains of steps that are taken again were moved to %s", undone)


def _cache_bytes(learner: LocalLearner | ShardedLearner, settings: RunSettings) -> int:
    """Return how much an engine may keep beside the learner, and report what both take."""
    here = samples_here(settings.engine) and not placed_on_cluster(
        settings.engine, settings.cluster
    )
    copy = learner.policy.copy_bytes(always=settings.rollout.max_staleness > 0)
    needed = replace(learner.memory(), copy=copy if here else 0)
    free = free_memory(learner.policy.device)
    cache = engine_cache(needed, free)
    report_memory(needed, free, cache=cache if here else 0)
    return cache


def _watchdog(folder: RunFolder, settings: RunSettings, chains: ChainRunner) -> Watchdog:
    return Watchdog(
        folder=folder.stalls_folder,
        seconds=settings.rollout.stall_seconds,
        chains=chains.handles,
    )


def _ledger(folder: RunFolder, task_mix: TaskMix, settings: RunSettings, step: int) -> Ledger:
    return Ledger.open(
        folder.ledger_file,
        task_mix.tasks,
        seed=Seed(settings.seed),
        weights=task_mix.weights,
        step=step,
    )


def _engine(spec: EngineSpec, parts: RunParts, cluster: "RayCluster | None") -> TrainableEngine:
    settings = parts.settings
    if cluster is None or not placed_on_cluster(settings.engine, settings.cluster):
        return make_engine(spec, parts.engine)
    return cluster.make_engine(spec, trust_remote_code=settings.model.trust_remote_code)


def _engine_spec(
    policy: Policy, task_mix: TaskMix, settings: RunSettings, folder: RunFolder
) -> EngineSpec:
    renderer = task_mix.sources[0].agent.model.renderer
    lora = settings.model.lora
    return EngineSpec(
        settings=settings.engine,
        folder=policy.folder,
        load=policy.for_engine,
        tokenizer=getattr(renderer, "tokenizer", None),
        context_length=_longest_context(task_mix),
        dtype=str(policy.compute_dtype).removeprefix("torch."),
        concurrency=settings.rollout.max_concurrent,
        lora_rank=lora.rank if lora else None,
        deterministic=settings.deterministic,
        copies_weights=settings.rollout.max_staleness > 0 and not policy.is_sharded,
        log_folder=folder.path,
    )


def _longest_context(task_mix: TaskMix) -> float:
    return max(source.agent.limits.context_length for source in task_mix.sources)


@asynccontextmanager
async def _chain_runner(
    engine: TrainableEngine,
    environments: EnvironmentManager,
    task_mix: TaskMix,
    settings: RunSettings,
    folder: RunFolder,
    cluster: "RayCluster | None",
    progress: RunProgress,
    *,
    begun: bool,
) -> AsyncIterator[ChainRunner]:
    """Give every source's agent the engine, and run their chains concurrently."""
    agents = {
        source.name: source.agent.with_engine(
            engine, pool=environments, offload=cluster.offload if cluster else None
        )
        for source in task_mix.sources
    }
    async with AsyncExitStack() as stack:
        for agent in agents.values():
            stack.push_async_callback(agent.close)
        agents = await with_examples(
            agents,
            task_mix.sources,
            task_mix.tasks,
            file=folder.example_file,
            chains_file=folder.trial_file,
            seed=settings.seed,
            begun=begun,
            progress=progress,
        )
        yield ChainRunner(
            agents=agents,
            clock=LoopClock(),
            max_concurrent=settings.rollout.max_concurrent,
            retries=settings.rollout.retries,
            on_event=stack.enter_context(EventLog(folder.events_file)),
        )


def make_sampler(
    chains: ChainRunner,
    ledger: Ledger,
    finished: Sequence[Group],
    algorithm: Algorithm,
    settings: RunSettings,
    progress: RunProgress,
    findings: Findings,
) -> Sampler:
    """Make the stage that samples: step by step, or ahead of the learner within a bound."""
    planner = GroupPlanner(
        ledger=ledger,
        seed=Seed(settings.seed),
        num_chains=settings.rollout.num_chains,
        replace_flat=algorithm.dynamic_sampling,
        check=partial(_require_healthy_groups, settings, ledger, findings),
        on_chains=progress.chains_done,
        spare_chains=settings.rollout.spare_chains,
        favor_fast=settings.rollout.favor_fast,
    )
    rollout = settings.rollout
    if rollout.max_staleness:
        window = StalenessWindow(
            max_staleness=rollout.max_staleness,
            groups_per_step=rollout.tasks_per_step,
            steps=settings.train.steps,
            version=ledger.step,
            taken=ledger.step,
        )
        return AsyncSampler(chains, planner, window, finished)
    for visit in ledger.ready():  # of a run that was asynchronous before
        ledger.reissue(visit.group_id)
    return StepSampler(
        chains=chains,
        planner=planner,
        tasks_per_step=rollout.tasks_per_step,
        finished={group.id: group for group in finished if _is_fresh(group, ledger.step)},
    )


def _is_fresh(group: Group, version: int) -> bool:
    oldest = oldest_version(group)
    return oldest is None or oldest == version


def _evaluator(
    chains: ChainRunner, task_mix: TaskMix, settings: RunSettings, progress: RunProgress
) -> Evaluator:
    return Evaluator(
        chains=chains,
        tasks=task_mix.eval_tasks,
        settings=settings.eval,
        seed=Seed(settings.seed).child("evaluation"),
        on_chains=progress.chains_done,
    )


def _findings(folder: RunFolder, task_mix: TaskMix, parts: RunParts, step: int) -> Findings:
    names = {
        source.name: [spec.name for spec in source.agent.tools.specs] for source in task_mix.sources
    }
    with_tools = frozenset(source for source, tools in names.items() if tools)
    findings = Findings.open(
        folder.findings_file,
        task_mix.tasks,
        with_tools=with_tools,
        algorithm=parts.algorithm.name,
        step=step,
    )
    model = parts.settings.model.name
    for source, tools in names.items():
        findings.take_unseen_tools(source, model, unseen_tools(model, tools))
    return findings


def _require_healthy_groups(
    settings: RunSettings, ledger: Ledger, findings: Findings, groups: Sequence[Group]
) -> None:
    findings.take_failures(ledger.step + 1, groups)
    require_healthy(groups, max_failed_share=settings.rollout.max_failed_share)
    if settings.deterministic:
        require_no_timeouts(groups)


def _target(folder: RunFolder, settings: RunSettings) -> Target:
    """Return the early-stopping target, with the rewards of earlier steps of a resumed run."""
    train = settings.train
    earlier = [record.metrics for record in read_metrics(folder.metrics_file)]
    rewards = [metrics["reward/mean"] for metrics in earlier if "reward/mean" in metrics]
    return Target(train.target_reward, window=train.target_window, earlier=rewards)


@asynccontextmanager
async def _cluster(settings: RunSettings, folder: RunFolder) -> AsyncIterator["RayCluster | None"]:
    """Open the run's cluster, if it has one: only then is Ray imported."""
    if settings.cluster is None:
        yield None
        return
    from agentfly.cluster import open_cluster

    concurrency = settings.rollout.max_concurrent
    async with open_cluster(
        settings.cluster, log_folder=folder.workers_folder, concurrency=concurrency
    ) as cluster:
        yield cluster


def _learner_hosts(settings: RunSettings, cluster: "RayCluster | None") -> LearnerHosts | None:
    """Return the cluster where it has to know of the learner: its processes, or its one GPU."""
    if cluster is None:
        return None
    on_gpu = device_of(settings.model.device).type == "cuda" and cluster.offers_gpus_here
    shared = settings.learner.processes > 1 or on_gpu
    return cluster.process_groups(serve_place) if shared else None


@asynccontextmanager
async def open_environments(
    task_mix: TaskMix, settings: EnvironmentSettings, cluster: "RayCluster | None" = None
) -> AsyncIterator[EnvironmentManager]:
    """Open one manager for all sources, and start to make its warm instances."""
    specs = dict.fromkeys(spec for source in task_mix.sources for spec in source.agent.environments)
    manager = EnvironmentManager(
        {spec.factory: _pooling(spec, settings) for spec in specs},
        memory_mb=settings.memory_mb or math.inf,
        cpus=settings.cpus or math.inf,
        placement_of=cluster.placement_of if cluster else placement_of,
        cluster_state=cluster.state if cluster else lambda: None,
    )
    async with manager:
        await manager.warm_up(list(specs))
        yield manager


def _pooling(spec: EnvSpec, settings: EnvironmentSettings) -> Pooling:
    chosen = settings.model_dump(include={"max_instances", "min_warm"}, exclude_none=True)
    return replace(pooling_of(spec.factory), **chosen)
