"""Opening every part of a run, new or resumed, and closing them all whatever happens."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager
from functools import partial

import torch

from agentfly.algorithms import Algorithm
from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.engines.local import LocalEngine
from agentfly.observe import EventLog, RunProgress, log_to, read_metrics
from agentfly.resources import EnvironmentManager, reporting
from agentfly.runtime.clock import LoopClock
from agentfly.tasks import Ledger
from agentfly.training.chains import Chains
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.disk import full_disk_told
from agentfly.training.evaluation import Evaluator
from agentfly.training.health import require_healthy, require_timeless
from agentfly.training.learner.learner import Learner
from agentfly.training.learner.policy import Policy
from agentfly.training.loop import Loop
from agentfly.training.memory import engine_cache, free_memory, tell_memory
from agentfly.training.run_environments import run_environments
from agentfly.training.run_files import begun_or_absent, open_folder, open_run_trackers
from agentfly.training.run_folder import RunFolder
from agentfly.training.sampling import Sampler
from agentfly.training.saving import restore_state, seed_everything
from agentfly.training.source import Curriculum, require_models_fit
from agentfly.training.stopping import Target
from agentfly.types import Group, Seed


@asynccontextmanager
async def opened(
    settings: RunSettings,
    curriculum: Curriculum,
    *,
    algorithm: Algorithm,
    mask: MaskPolicy,
    progress: RunProgress,
    resume: bool,
) -> AsyncIterator[Loop]:
    """Open what a run needs; a resumed one stands exactly where its last checkpoint was."""
    require_models_fit(curriculum, settings)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(_surroundings(settings, progress, resume=resume))
        with begun_or_absent(folder, resume=resume):
            checkpoints = Checkpoints(folder.checkpoints_folder, keep=settings.checkpoint.keep)
            saved = checkpoints.latest()
            step = saved.step if saved else 0
            folder.drop_trajectories_after(step)
            ledger = stack.enter_context(_ledger(folder, curriculum, settings, step))
            policy = Policy.load(settings.model, seed=settings.seed)
            learner = Learner(policy, algorithm, settings, sampler_matches=policy.samples_exactly)
            needed, free = learner.memory(), free_memory(policy.device)
            cache = engine_cache(needed, free)
            tell_memory(needed, free, cache=cache)
            finished = restore_state(saved, policy=policy, learner=learner) if saved else []
            engine = _engine(policy, curriculum, settings, version=step, cache=cache)
            stack.push_async_callback(engine.close)
            environments = await stack.enter_async_context(
                run_environments(curriculum, settings.environments)
            )
            stack.enter_context(reporting(environments.snapshot, folder.path))
            chains = await stack.enter_async_context(
                _chains(engine, environments, curriculum, settings, folder)
            )
            trackers = open_run_trackers(folder, settings, step, resume=resume)
            loop = Loop(
                settings=settings,
                folder=folder,
                policy=policy,
                engine=engine,
                learner=learner,
                mask=mask,
                sampler=_sampler(chains, ledger, finished, algorithm, settings, progress),
                evaluator=_evaluator(chains, curriculum, settings, progress),
                environments=environments,
                ledger=ledger,
                checkpoints=checkpoints,
                trackers=stack.enter_context(closing(trackers)),
                progress=progress,
                target=_target(folder, settings),
                saved=saved,
            )
        yield loop


@contextmanager
def _surroundings(
    settings: RunSettings, progress: RunProgress, *, resume: bool
) -> Iterator[RunFolder]:
    """Open what everything else happens in: the folder, its log, the progress bars."""
    with ExitStack() as stack:
        folder = stack.enter_context(open_folder(settings, resume=resume))
        stack.enter_context(full_disk_told(folder.path))
        stack.enter_context(_determinism(settings))
        stack.enter_context(progress)
        stack.enter_context(log_to(folder.log_file, tell=progress.message))
        yield folder


@contextmanager
def _determinism(settings: RunSettings) -> Iterator[None]:
    """Let nothing but the seed decide, where that is asked for."""
    if not settings.deterministic:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(mode=True)
    seed_everything(settings.seed)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(mode=before)


def _ledger(folder: RunFolder, curriculum: Curriculum, settings: RunSettings, step: int) -> Ledger:
    return Ledger.open(
        folder.ledger_file,
        curriculum.tasks,
        seed=Seed(settings.seed),
        weights=curriculum.weights,
        step=step,
    )


def _engine(
    policy: Policy, curriculum: Curriculum, settings: RunSettings, *, version: int, cache: int
) -> LocalEngine:
    renderer = curriculum.sources[0].agent.model.renderer
    return LocalEngine(
        policy.causal_lm,
        getattr(renderer, "tokenizer", None),
        dtype=policy.sampling_dtype,
        version=version,
        max_running=settings.rollout.max_concurrent,
        cache_bytes=cache,
        deterministic=settings.deterministic,
    )


@asynccontextmanager
async def _chains(
    engine: LocalEngine,
    environments: EnvironmentManager,
    curriculum: Curriculum,
    settings: RunSettings,
    folder: RunFolder,
) -> AsyncIterator[Chains]:
    """Let every source's agent speak through the engine."""
    agents = {
        source.name: source.agent.through(engine, pool=environments)
        for source in curriculum.sources
    }
    async with AsyncExitStack() as stack:
        for agent in agents.values():
            stack.push_async_callback(agent.close)
        yield Chains(
            agents=agents,
            clock=LoopClock(),
            max_concurrent=settings.rollout.max_concurrent,
            retries=settings.rollout.retries,
            on_event=stack.enter_context(EventLog(folder.events_file)),
        )


def _sampler(
    chains: Chains,
    ledger: Ledger,
    finished: Sequence[Group],
    algorithm: Algorithm,
    settings: RunSettings,
    progress: RunProgress,
) -> Sampler:
    return Sampler(
        chains=chains,
        ledger=ledger,
        seed=Seed(settings.seed),
        num_chains=settings.rollout.num_chains,
        tasks_per_step=settings.rollout.tasks_per_step,
        replace_flat=algorithm.dynamic_sampling,
        check=partial(_check, settings),
        on_chain=progress.chain_done,
        finished={group.id: group for group in finished},
    )


def _evaluator(
    chains: Chains, curriculum: Curriculum, settings: RunSettings, progress: RunProgress
) -> Evaluator:
    return Evaluator(
        chains=chains,
        tasks=curriculum.eval_tasks,
        settings=settings.eval,
        seed=Seed(settings.seed).child("evaluation"),
        on_chain=progress.chain_done,
    )


def _check(settings: RunSettings, groups: Sequence[Group]) -> None:
    require_healthy(groups, max_failed_share=settings.rollout.max_failed_share)
    if settings.deterministic:
        require_timeless(groups)


def _target(folder: RunFolder, settings: RunSettings) -> Target:
    """Take the rewards of earlier steps into account when a run is resumed."""
    train = settings.train
    earlier = [record.metrics for record in read_metrics(folder.metrics_file)]
    rewards = [metrics["reward/mean"] for metrics in earlier if "reward/mean" in metrics]
    return Target(train.target_reward, window=train.target_window, earlier=rewards)
