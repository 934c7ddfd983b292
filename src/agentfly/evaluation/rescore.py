"""New rewards over recorded chains, without generating anything.

    runs/sums/trajectories/step_3.jsonl.gz ─► reward ─► runs/sums-rescored/trajectories/step_3…

A recorded chain has its messages, calls, results and task, and no environment any more: a reward
that looks at the state of one can't score it.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from agentfly.config import RunSettings, to_toml
from agentfly.config.evaluation_settings import EvaluationSettings
from agentfly.config.settings_file import validated
from agentfly.errors import ConfigError, RewardError
from agentfly.observe import (
    Counting,
    MetricsFile,
    TrajectoryWriter,
    compact,
    evaluation_metrics,
    rollout_metrics,
)
from agentfly.observe.recorded_run import ChainFile, RecordedRun
from agentfly.observe.run_folder import MARK, EvaluationFolder, RunFolder
from agentfly.rollout.scoring import GroupScoring, score_chain
from agentfly.runtime.clock import LoopClock
from agentfly.types import (
    Context,
    EnvSpec,
    Group,
    GroupReward,
    Reward,
    Seed,
    StopReason,
    Trajectory,
    collect_groups,
    declared_range,
)
from agentfly.types.trajectory import differ

REWARD_SECONDS = 300.0
"""Seconds for the reward of one chain, as in a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoredFile:
    """Old and new rewards of the chains of a step or of an evaluation."""

    title: str
    old: tuple[float, ...]
    new: tuple[float, ...]
    """Rewards of the chains that have both."""
    failed: int
    """Chains that the new reward could not score."""
    error: str | None = None
    """The first failure."""

    @property
    def changed(self) -> int:
        """Number of chains with another reward than before."""
        pairs = zip(self.old, self.new, strict=True)
        return sum(differ(*sorted(pair)) for pair in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRewards:
    """Rewards to score by; one of them may be missing."""

    reward: Reward | None = None
    group_reward: GroupReward | None = None

    def require_recorded(self) -> None:
        """Refuse a reward on the state of an environment, which no recorded chain has."""
        if self.reward is not None and self.reward.environments:
            raise _needs_state(self.reward)


def _needs_state(reward: Reward) -> ConfigError:
    return ConfigError(
        f"the reward {reward.name!r} looks at the state of an environment, and recorded chains "
        "have no environment any more: their messages, calls and results are all that there is. "
        "Score by those, or sample new chains with `agentfly eval`"
    )


@dataclass(slots=True)
class _NoEnvironments:
    """Environments of a recorded chain: there are none; notes whether a reward asked for one."""

    asked: bool = False

    async def get(self, spec: EnvSpec | None) -> object:
        del spec
        self.asked = True
        raise ConfigError("recorded chains have no environment any more")


async def rescore(
    run: RecordedRun, rewards: NewRewards, folder: Path, *, reward_name: str | None
) -> AsyncIterator[RescoredFile]:
    """Score every chain of a run again, into a new folder; yield the outcome of each file.

    Args:
        run: The run or evaluation; it is only read.
        rewards: The new rewards.
        folder: The new folder.
        reward_name: Name of the reward in the new folder's settings.
    """
    rewards.require_recorded()
    if not run.chain_files:
        raise ConfigError(f"{run.path} has no chains to score")
    if (folder / MARK).exists():
        raise ConfigError(
            f"{folder} holds a run already: give the rescored one another --name, or remove it "
            "with `agentfly runs rm`"
        )
    kind = EvaluationFolder if run.kind == "evaluation" else RunFolder
    outcomes: list[RescoredFile] = []
    with (
        kind.create(folder, config=_config(run, reward_name)) as made,
        _whole_or_gone(made),
        closing(MetricsFile(made.metrics_file)) as metrics,
    ):
        for file in run.chain_files:
            groups = collect_groups(file.read())
            scored = [await _score_group(group, rewards) for group in groups]
            target = made.trajectories_folder / file.path.name.removesuffix(".gz")
            with TrajectoryWriter(target) as writer:
                for group in scored:
                    writer.write_group(group)
            compact(target)
            metrics.log(_metrics(file, scored, rewards), file.step)
            outcomes.append(_described(file, groups, scored))
            yield outcomes[-1]
        _require_scores(outcomes)


def _require_scores(files: Sequence[RescoredFile]) -> None:
    if not any(file.new for file in files):
        errors = (file.error for file in files if file.error)
        reason = next(errors, "none of them has an old reward")
        raise ConfigError(f"no chain could be scored, so nothing is written: {reason}")


@contextmanager
def _whole_or_gone(folder: RunFolder) -> Iterator[None]:
    """Leave nothing of a run that can't be rescored."""
    try:
        yield
    except ConfigError:
        folder.abandon()
        raise


def _config(run: RecordedRun, reward_name: str | None) -> str:
    """Return the run's settings with the new reward in every source."""
    file, settings = str(run.path / "config.toml"), run.settings
    read: EvaluationSettings | RunSettings
    if run.kind == "evaluation":
        read = validated(EvaluationSettings, settings, (), file)
    else:
        read = validated(RunSettings, settings, (), file)
    sources = tuple(one.model_copy(update={"reward": reward_name}) for one in read.source)
    return to_toml(read.model_copy(update={"source": sources}))


def _metrics(file: ChainFile, groups: Sequence[Group], rewards: NewRewards) -> dict[str, float]:
    if not file.held_out:
        return rollout_metrics(groups)
    range = declared_range(rewards.reward or rewards.group_reward)
    sources = {group.task.source for group in groups}
    return evaluation_metrics(groups, Counting(ranges=dict.fromkeys(sources, range)))


async def _score_group(group: Group, rewards: NewRewards) -> Group:
    members = tuple([await _score(member, rewards.reward) for member in group.members])
    scored = replace(group, members=members)
    if rewards.group_reward is None:
        return scored
    clock = LoopClock()
    scoring = GroupScoring(
        reward=rewards.group_reward,
        clock=clock,
        asked_at=clock.now(),
        seconds=REWARD_SECONDS,
        retries=0,
    )
    return await scoring.score(scored, Seed(0).child("task", group.id))


async def _score(chain: Trajectory, reward: Reward | None) -> Trajectory:
    """Return the chain with its new score; one that was never scored stays as it is."""
    if not chain.stop.verdict.scored:
        return chain
    bare = replace(chain, score=None)
    if reward is None:
        return bare
    clock, environments = LoopClock(), _NoEnvironments()
    context = Context(
        task=chain.task,
        group_id=chain.group_id,
        chain_id=chain.chain_id,
        turn=len(chain.turns),
        seed=Seed(0).child("rescore", chain.chain_id),
        clock=clock,
        deadline=clock.now() + REWARD_SECONDS,
        environments=environments,
        metadata=dict(chain.metadata),
    )
    try:
        return replace(bare, score=await score_chain(reward, bare, context))
    except RewardError as error:
        if environments.asked:
            raise _needs_state(reward) from error
        text = f"RewardError: {error}"
        return replace(bare, stop=StopReason.REWARD_FAILED, error=text)


def _described(file: ChainFile, before: Sequence[Group], after: Sequence[Group]) -> RescoredFile:
    pairs = [
        (old, new)
        for one, other in zip(before, after, strict=True)
        for old, new in zip(one.members, other.members, strict=True)
    ]
    both = [(a.reward, b.reward) for a, b in pairs if a.reward is not None and b.reward is not None]
    failed = [b for a, b in pairs if b.stop is StopReason.REWARD_FAILED and a.stop is not b.stop]
    return RescoredFile(
        title=file.title,
        old=tuple(old for old, _ in both),
        new=tuple(new for _, new in both),
        failed=len(failed),
        error=failed[0].error if failed else None,
    )
