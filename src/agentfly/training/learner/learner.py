"""The learner: from a step's groups to one or more updates of the policy.

    harvest     the chains that can be learnt from
    old         log-probabilities before the step     only where more than one update needs them
    reference   log-probabilities of the reference    only with a KL term
    values      what the critic foresees              only with a critic
    advantage   what each token is credited with; chains without credit are dropped
    update      epochs × minibatches of forward, backward and one call of the optimiser

Each call of the optimiser has one denominator, over all of its rows: neither packing nor the budget
of a row can change a gradient.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from agentfly.algorithms import Algorithm, diagnose_advantages, kl_estimate
from agentfly.chat import MaskPolicy
from agentfly.chat.mask import all_sampled
from agentfly.config import RunSettings
from agentfly.training.learner.actor import Actor
from agentfly.training.learner.batch import Batch, Known, timeline
from agentfly.training.learner.critic import Critic
from agentfly.training.learner.forward import Forward
from agentfly.training.learner.harvest import Harvest, harvest
from agentfly.training.learner.learnt import Learnt, Record
from agentfly.training.learner.memory import Memory, foresee
from agentfly.training.learner.minibatch import deal
from agentfly.training.learner.out_of_memory import out_of_memory_told
from agentfly.training.learner.policy import Policy
from agentfly.training.learner.reference import make_reference
from agentfly.training.learner.rows import Packing
from agentfly.training.learner.schedule import learning_rate
from agentfly.types import Group, Seed


class Learner:
    """Trains a policy; knows nothing of where chains come from."""

    def __init__(
        self,
        policy: Policy,
        algorithm: Algorithm,
        settings: RunSettings,
        *,
        sampler_matches: bool = False,
    ) -> None:
        """Prepare the passes that the algorithm needs.

        Args:
            policy: As it is now, it becomes the reference, and the critic starts from it.
            algorithm: What to learn by.
            settings: `train` and `seed` count here.
            sampler_matches: Chains are sampled with the policy's own weights and dtype, so that
                what the sampler recorded can serve as the log-probabilities before a step.
        """
        self.step = 0
        """Steps learnt so far: the place in the schedule."""
        self._algorithm = algorithm
        self._train = settings.train
        self._seed = Seed(settings.seed).child("learner")
        self._sampler_matches = sampler_matches
        self._policy = policy
        self._forward = forward = Forward(
            policy.causal_lm,
            dtype=policy.compute_dtype,
            checkpointing=policy.settings.gradient_checkpointing,
        )
        self._actor = Actor(policy, forward, algorithm, settings.train)
        self._reference = make_reference(policy, forward) if algorithm.needs_reference else None
        self._critic = (
            Critic(policy, algorithm.critic, settings.train) if algorithm.critic else None
        )
        self._packing = Packing(
            budget=settings.train.tokens_per_microbatch,
            share=settings.train.share_prefixes and forward.body.shares_prefixes,
            device=policy.device,
        )

    def memory(self) -> Memory:
        """Foresee what an update will take beyond the weights."""
        trained = [*self._policy.trained, *(self._critic.trained if self._critic else ())]
        return foresee(self._forward, trained, self._train.tokens_per_microbatch)

    def learn(
        self,
        groups: Sequence[Group],
        mask: MaskPolicy = all_sampled,
        *,
        version: int | None = None,
    ) -> Learnt:
        """Learn from one step's groups.

        Args:
            groups: Everything that was sampled for the step, failures included.
            mask: Which sampled tokens are trained.
            version: Of the weights now. What the sampler recorded is used as it is only where all
                tokens were sampled by this version.
        """
        record = Record()
        found = harvest(groups, mask, self._algorithm.overlong)
        _count(found, record)
        if found.chains:
            with out_of_memory_told(self._train):
                self._learn(Batch(found.chains), version, record)
        self.step += 1
        return record.learnt()

    def _learn(self, batch: Batch, version: int | None, record: Record) -> None:
        batch, known = self._credited(batch, version, record)
        lr = record.counts["lr"] = learning_rate(self.step, self._train)
        for part, known_of_part in self._minibatches(batch, known):
            self._update(part, known_of_part, lr, record)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to continue, besides the policy's own weights."""
        critic = {"critic": self._critic.state_dict()} if self._critic else {}
        return {"step": self.step, "actor": self._actor.state_dict(), **critic}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another learner of the same settings stood."""
        self.step = state["step"]
        self._actor.load_state_dict(state["actor"])
        if self._critic is not None:
            self._critic.load_state_dict(state["critic"])

    def _credited(self, batch: Batch, version: int | None, record: Record) -> tuple[Batch, Known]:
        """Credit every chain, and keep those that have something to teach."""
        known = Known()
        if self._kl_is_reward:
            known = self._looked_back(batch, known, version, record)
        if self._critic is not None:
            with record.timing("values"):
                known = replace(known, values_N=self._packing.measure(batch, self._critic.values))
        with record.timing("advantage"):
            known, used_C = self._advantages(batch, known, record)
        batch, tokens = batch.take(used_C & (batch.chain_tokens_C > 0))
        record.counts["chains_used"] = len(batch.chains)
        record.counts["trained_tokens"] = len(batch)
        record.counts["total_tokens"] = sum(len(sample.token_ids) for sample in batch.samples)
        return batch, self._looked_back(batch, known.take(tokens), version, record)

    def _looked_back(
        self, batch: Batch, known: Known, version: int | None, record: Record
    ) -> Known:
        """Find the log-probabilities before the step and of the reference, where still unknown."""
        if known.old_logprobs_N is None and self._needs_old:
            with record.timing("old"):
                known = replace(known, old_logprobs_N=self._old_logprobs(batch, version))
        if known.reference_logprobs_N is None and self._reference is not None:
            with record.timing("reference"):
                found_N = self._packing.measure(batch, self._reference)
                known = replace(known, reference_logprobs_N=found_N)
        return known

    @property
    def _kl_is_reward(self) -> bool:
        return self._algorithm.kl is not None and self._algorithm.kl.place == "reward"

    @property
    def _needs_old(self) -> bool:
        return self._kl_is_reward or self._train.epochs * self._train.minibatches > 1

    def _old_logprobs(self, batch: Batch, version: int | None) -> Tensor:
        fresh = version is not None and bool((batch.versions_N == version).all())
        if self._sampler_matches and fresh:
            return batch.sampled_logprobs_N
        return self._packing.measure(batch, self._actor.logprobs)

    def _advantages(self, batch: Batch, known: Known, record: Record) -> tuple[Known, Tensor]:
        ordered = timeline(batch, kl_N=self._kl_reward(known), values_N=known.values_N)
        output = self._algorithm.advantage(ordered.input)
        record.counts.update(diagnose_advantages(ordered.input, output))
        returns_N = output.returns_N
        credited = replace(
            known,
            advantages_N=ordered.back(output.advantages_N),
            returns_N=None if returns_N is None else ordered.back(returns_N),
        )
        return credited, output.used_C

    def _kl_reward(self, known: Known) -> Tensor | None:
        kl = self._algorithm.kl
        if kl is None or kl.place != "reward":
            return None
        assert known.old_logprobs_N is not None, "looked back before"
        assert known.reference_logprobs_N is not None, "looked back before"
        estimate_N = kl_estimate(known.old_logprobs_N, known.reference_logprobs_N, kl.estimator)
        return kl.coefficient * estimate_N

    def _minibatches(self, batch: Batch, known: Known) -> Iterator[tuple[Batch, Known]]:
        groups_C = [chain.group for chain in batch.chains]
        for epoch in range(self._train.epochs):
            seed = self._seed.child("minibatches", self.step, epoch)
            for chains in deal(groups_C, self._train.minibatches, seed):
                kept_C = torch.zeros(len(batch.chains), dtype=torch.bool)
                kept_C[chains] = True
                part, tokens = batch.take(kept_C)
                yield part, known.take(tokens)

    def _update(self, batch: Batch, known: Known, lr: float, record: Record) -> None:
        with record.timing("pack"):
            rows = self._packing.rows(batch)
        record.means["computed_tokens"].append(sum(len(part.row.token_ids) for part in rows))
        with record.timing("update"):
            self._actor.update(batch, known, rows, lr, record)
        if self._critic is not None:
            with record.timing("critic"):
                self._critic.update(batch, known, rows, lr, record)


def _count(found: Harvest, record: Record) -> None:
    rewards_C = torch.tensor([chain.reward for chain in found.chains])
    record.counts["chains"] = len(rewards_C)
    if len(rewards_C):
        record.counts["reward_mean"] = float(rewards_C.mean())
        record.counts["reward_std"] = float(rewards_C.std(correction=0))
    for reason, count in found.left_out.items():
        record.counts[f"left_out/{reason}"] = count
