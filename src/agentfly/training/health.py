"""Checks of a step's chains before they are trained on."""

import logging
from collections.abc import Iterable, Sequence

from agentfly.chat import MaskPolicy, apply_mask
from agentfly.errors import RunError
from agentfly.observe import summarize
from agentfly.types import Group, StopReason, ToolStatus, Trajectory

_log = logging.getLogger(__name__)


def has_trainable(group: Group) -> bool:
    """Return whether any chain of the group can be trained on."""
    return any(member.trainable for member in group.members)


def masks_everything(groups: Iterable[Group], mask: MaskPolicy) -> bool:
    """Return whether there are chains to train on, and the mask leaves no token of any."""
    chains = [member for group in groups for member in group.members if member.trainable]
    return bool(chains) and not any(
        any(flags) for chain in chains for flags in apply_mask(mask, chain.turns)
    )


def require_healthy(groups: Iterable[Group], *, max_failed_share: float) -> None:
    """End the run when too many chains failed: what is left would be a biased sample."""
    chains = [member for group in groups for member in group.members]
    failed = [chain for chain in chains if chain.stop.verdict.failure]
    if len(failed) <= max_failed_share * len(chains):
        return
    causes = ", ".join(f"{cause} {n}" for cause, n in summarize(failed).failures.items())
    raise RunError(
        f"{len(failed)} of {len(chains)} chains failed, more than the allowed share of "
        f"{max_failed_share:.0%}: {causes}. The first one, {failed[0].chain_id}: "
        f"{failed[0].error}. Correct the cause and go on with --resume, or raise "
        "rollout.max_failed_share"
    )


class TimeLimitWarning:
    """Warns of chains that are dropped because they ran out of time, when there are more of them.

    A chain that takes long is often one of many turns: without those, a step learns from the short
    ones, and a policy that gives up early looks better than it is.
    """

    def __init__(self) -> None:
        self._largest = 0.0

    def update(self, share: float) -> None:
        """Warn if a larger share of a step's chains than ever before ran out of time."""
        if share <= self._largest:
            return
        self._largest = share
        _log.warning(
            "%.0f%% of the chains ran out of time and are not trained on: the step learns from the "
            "short ones, which favors short chains. Give them more time (rollout.chain_seconds, or "
            "the agent's limits), or fewer turns and tokens: chains that those end are scored",
            100 * share,
        )


def require_no_timeouts(groups: Sequence[Group]) -> None:
    """End a deterministic run in which a deadline fired: the clock has decided an outcome."""
    for chain in (member for group in groups for member in group.members):
        if chain.stop is StopReason.TIME_LIMIT or _timed_out(chain):
            raise RunError(
                f"a deadline fired in chain {chain.chain_id}, and a deterministic run may not "
                "depend on the clock: give its tools and chains more time, or set deterministic "
                "to false"
            )


def _timed_out(chain: Trajectory) -> bool:
    results = (result for turn in chain.turns for result in turn.results)
    return any(result.status is ToolStatus.TIMEOUT for result in results)
