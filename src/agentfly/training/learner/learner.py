"""The learner: from a step's groups to one or more updates of the policy.

    chains      those that can be trained on
    plan        the chains of each update, and the rows in which they are computed
    values      what the critic predicts              only with a critic
    advantage   what each token is credited with
    old         log-probabilities before the step     only where more than one update needs them
    reference   log-probabilities of the reference    only with a KL term
    update      epochs × minibatches of forward, backward and one call of the optimizer

A step is planned after the advantages, so that chains without credit need not be computed, or
before them where advantages need a pass over all chains (a critic, or KL in the reward).

Each call of the optimizer has one denominator, over all of its scored chains: neither
packing nor the budget of a row can change a gradient. With unchanged weights every ratio is exactly
1, because old log-probabilities are measured in the rows of the update.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards

from agentfly.algorithms import Algorithm, diagnose_advantages, kl_estimate
from agentfly.chat import MaskPolicy
from agentfly.chat.mask import all_sampled
from agentfly.config import RunSettings
from agentfly.errors import CallbackError, ConfigError
from agentfly.training.learner.actor import Actor, Reference
from agentfly.training.learner.critic import Critic
from agentfly.training.learner.memory import Memory, estimate_memory, report_out_of_memory
from agentfly.training.learner.minibatch import Minibatch, Packing, Pass, Plan, make_plan
from agentfly.training.learner.optimizer import learning_rate, with_learning_rate
from agentfly.training.learner.packed_forward import Forward, completion_row
from agentfly.training.learner.peers import Peers
from agentfly.training.learner.policy import Policy, weight_forms, weights_as
from agentfly.training.learner.sharding import release, shard
from agentfly.training.learner.step_metrics import StepRecorder
from agentfly.training.learner.token_batch import Batch, TokenTargets, timeline
from agentfly.training.learner.token_credit import record_credit
from agentfly.training.learner.trainable_chains import TrainableChains, find_trainable_chains
from agentfly.types import Group, Seed, StepMetrics, Weights

STATE_FILE = "learner.pt"
SHARDS_FOLDER = "learner"
"""Instead of that file, where several processes write their parts."""
OLD_FILE = "trainer.pt"
"""Earlier checkpoints hold the learner's state in this file, under the key "learner"."""


def _read_state(folder: Path, *, mapped: bool) -> dict[str, Any]:
    """Read the state that one process wrote, or map it to take a part of it."""
    own = folder / STATE_FILE
    file = own if own.exists() else folder / OLD_FILE
    state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    return state if own.exists() else dict(state["learner"])


class LocalLearner:
    """Trains a policy in this process, on chains of any origin."""

    def __init__(
        self,
        policy: Policy,
        algorithm: Algorithm,
        settings: RunSettings,
        *,
        sampler_matches: bool = False,
        peers: Peers | None = None,
    ) -> None:
        """Prepare the passes that the algorithm needs.

        Args:
            policy: As it is now, it becomes the reference, and the critic starts from it.
            algorithm: What to learn by.
            settings: `train` and `seed` count here.
            sampler_matches: Chains are sampled with the policy's own weights and dtype, so that
                what the sampler recorded is good enough for KL in the reward.
            peers: The other processes that train it, which make the same learner and call the same
                methods; by default there are none.
        """
        self.step = 0
        """Steps learned so far: the place in the schedule."""
        self._algorithm = algorithm
        trained = sum(weight.numel() for weight in policy.trained)
        self._train = with_learning_rate(settings.train, trained)
        self._seed = Seed(settings.seed).child("learner")
        self._sampler_matches = sampler_matches
        self.policy = policy
        self.peers = peers = peers or Peers()
        with_adapters = algorithm.critic is not None and policy.adapted
        if with_adapters:
            policy.add_critic_adapters()
        self._forward = forward = Forward(
            policy.causal_lm,
            dtype=policy.compute_dtype,
            checkpointing=policy.settings.gradient_checkpointing,
        )
        if with_adapters:
            forward.add_value_head()
        self._packing = Packing(
            budget=settings.train.tokens_per_microbatch,
            share=settings.train.share_prefixes and forward.body.shares_prefixes,
            device=policy.device,
            peers=peers,
        )
        self._reference = Reference(policy, forward, peers) if algorithm.needs_reference else None
        self._critic = (
            Critic(policy, forward, algorithm.critic, settings.train.of_critic(), peers)
            if algorithm.critic
            else None
        )
        self._roots = [
            self._forward,
            *([self._reference.root] if self._reference else []),
            *([self._critic.root] if self._critic else []),
        ]
        self._memory = self._estimate() if peers.is_sharded else None
        self._shard()
        self._actor = Actor(policy, forward, algorithm, settings.train, peers)
        if self._critic is not None:
            self._critic.make_optimizer()

    def _shard(self) -> None:
        """Spread the policy's weights over the processes; the module that it had is dropped."""
        if not self.peers.is_sharded:
            return
        head = self._forward.value_head
        shard(
            self._forward,
            self._forward.body.module,
            self.peers,
            dtype=self.policy.compute_dtype,
            offload=self.peers.settings.offload_optimizer,
            exact=[head] if head is not None else [],
        )
        self.policy.adopt(self._forward.body.module)

    def memory(self) -> Memory:
        """Estimate what an update will take beyond the weights."""
        return self._memory or self._estimate()

    def _estimate(self) -> Memory:
        critics = self._critic.trained.values() if self._critic else ()
        trained = [*self.policy.trained, *critics]
        tokens = self._train.tokens_per_microbatch
        return estimate_memory(self._forward, trained, tokens, processes=self.peers.size)

    def learn(
        self,
        groups: Sequence[Group],
        mask: MaskPolicy = all_sampled,
        *,
        version: int | None = None,
    ) -> StepMetrics:
        """Learn from one step's groups.

        Args:
            groups: Everything that was sampled for the step, failures included.
            mask: Which sampled tokens are trained.
            version: Of the weights now. What the sampler recorded is used for KL in the reward only
                where all tokens were sampled by this version.
        """
        return self.learn_from(self.trainable(groups, mask), version=version)

    def trainable(self, groups: Sequence[Group], mask: MaskPolicy) -> TrainableChains:
        """Return the chains of a step that can be trained on."""
        try:
            return find_trainable_chains(groups, mask, self._algorithm.overlong)
        except (CallbackError, ConfigError) as error:
            raise type(error)(f"step {self.step + 1}: {error}") from error

    def learn_from(self, found: TrainableChains, *, version: int | None = None) -> StepMetrics:
        """Learn from one step's chains: all processes from the same ones, each in its own rows."""
        record = StepRecorder()
        _count(found, record)
        batch, advantages_N = Batch(found.chains), torch.zeros(0)
        if found.chains:
            with report_out_of_memory(self._train):
                advantages_N = self._learn(batch, version, record)
        record.join(self.peers)
        if self.peers.rank == 0:
            record.credit = record_credit(batch, advantages_N, record.entropies)
        self.step += 1
        return record.step_metrics()

    def _learn(self, batch: Batch, version: int | None, record: StepRecorder) -> Tensor:
        """Update the weights, and return the advantages of all trained tokens."""
        known, plan = self._credited(batch, version, record)
        _count_active(plan, record)
        known = self._looked_back(plan, known, record)
        lr = record.counts["lr"] = learning_rate(self.step, self._train)
        for epoch in range(self._train.epochs):
            for minibatch in plan.in_order(epoch, self._seed_of(epoch)):
                self._update(minibatch, known.take(minibatch.tokens), lr, record)
        assert known.advantages_N is not None, "credited before it is learned from"
        return known.advantages_N

    @property
    def gives(self) -> Sequence[type[Weights]]:
        """Forms in which `weights` can give the weights, the cheapest first."""
        return weight_forms(self.policy, self.peers)

    def weights(self, form: type[Weights], folder: Path) -> Weights:
        """Return the weights as they are now; forms with files write them to a new `folder`."""
        return weights_as(self.policy, form, folder, self.peers)

    def save(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder, and next to it what is needed to continue."""
        self.policy.save(folder, self.peers)
        if self.peers.is_sharded:
            save_shards(self._named_state(), checkpoint_id=folder / SHARDS_FOLDER)
        else:
            torch.save(self.state_dict(), folder / STATE_FILE)

    def restore(self, folder: Path) -> None:
        """Continue exactly where a learner of the same settings stood, on any number of processes.

        Each process of a machine reads the model in its turn, and keeps its own part.
        """
        with self.peers.in_turn():
            self.policy.restore(folder)
            if not (folder / SHARDS_FOLDER).exists():
                self.load_state_dict(_read_state(folder, mapped=self.peers.is_sharded))
        if (folder / SHARDS_FOLDER).exists():
            state = self._named_state()
            with warnings.catch_warnings():
                # That one process reads it is intended.
                warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
                alone = not self.peers.is_sharded
                load_shards(state, checkpoint_id=folder / SHARDS_FOLDER, no_dist=alone)
            self._load_named_state(state)

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder, adapters merged, to be used anywhere."""
        self.policy.export(folder, self.peers)

    def close(self) -> None:
        """Free nothing: memory of this process goes with the learner."""

    @torch.no_grad()
    def logprobs(self, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens after a prompt, at temperature 1."""
        row, targets = completion_row(prompt, tokens, self.policy.device)
        found: list[float] = self._actor.logprobs(row, targets).tolist()
        release(self._forward)
        return found

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

    def _named_state(self) -> dict[str, Any]:
        """Return what `state_dict` returns, by the names of parameters: its tensors are in use."""
        state: dict[str, Any] = {
            "step": torch.tensor(self.step),
            "actor": self._actor.optimizer.named_state(),
        }
        if self._critic is not None:
            critic = self._critic
            state["critic"] = {name: {"weight": p.detach()} for name, p in critic.trained.items()}
            state["critic_optimizer"] = critic.optimizer.named_state()
        return state

    def _load_named_state(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])
        self._actor.optimizer.load_named_state(state["actor"])
        if self._critic is not None:
            self._critic.optimizer.load_named_state(state["critic_optimizer"])

    def _credited(
        self, batch: Batch, version: int | None, record: StepRecorder
    ) -> tuple[TokenTargets, Plan]:
        """Credit every chain, and distribute them over updates."""
        plan, known = None, TokenTargets()
        if self._kl_is_reward or self._critic is not None:
            everyone_C = torch.ones(len(batch.chains), dtype=torch.bool)
            plan = self._planned(batch, self._active(batch, everyone_C), record)
            known = self._measured_for_credit(batch, plan, version, record)
        with record.timing("advantage"):
            # One process calls it: a function of a user's own may draw random numbers.
            first = self.peers.rank == 0
            found = self._advantages(batch, known, record) if first else None
            known, used_C = self.peers.from_first(found) or (known, torch.zeros(0))
        active_C = self._active(batch, used_C)
        if plan is not None and torch.equal(plan.active_C, active_C):
            return known, plan
        # What was measured in rows of other chains is too coarse for ratios.
        return replace(known, old_logprobs_N=None), self._planned(batch, active_C, record)

    def _active(self, batch: Batch, used_C: Tensor) -> Tensor:
        """Return which chains something acts on: credit, KL, entropy or the critic."""
        everyone = self._critic is not None or (self._counts_all and self._algorithm.penalizes)
        return (batch.chain_tokens_C > 0) & (used_C | everyone)

    @property
    def _counts_all(self) -> bool:
        return self._algorithm.denominator == "scored"

    def _planned(self, batch: Batch, active_C: Tensor, record: StepRecorder) -> Plan:
        with record.timing("pack"):
            return make_plan(
                batch,
                dealt_C=torch.ones_like(active_C) if self._counts_all else active_C,
                active_C=active_C,
                parts=self._train.minibatches,
                seed=self._seed_of(epoch=0),
                packing=self._packing,
            )

    def _seed_of(self, epoch: int) -> Seed:
        return self._seed.child("minibatches", self.step, epoch)

    def _measured_for_credit(
        self, batch: Batch, plan: Plan, version: int | None, record: StepRecorder
    ) -> TokenTargets:
        """Measure what the advantages need."""
        known = TokenTargets()
        if self._kl_is_reward:
            if not self._sampled_by_these_weights(batch, version):
                known = self._with_old(plan, known, record)
            known = self._with_reference(plan, known, record)
        if self._critic is not None:
            with record.timing("values"):
                known = replace(known, values_N=self._measure(plan, self._critic.values))
        return known

    def _looked_back(self, plan: Plan, known: TokenTargets, record: StepRecorder) -> TokenTargets:
        """Measure what the updates need and is still unknown."""
        several = self._train.epochs * self._train.minibatches > 1
        if several and known.old_logprobs_N is None:
            known = self._with_old(plan, known, record)
        if self._reference is not None and known.reference_logprobs_N is None:
            known = self._with_reference(plan, known, record)
        return known

    def _with_old(self, plan: Plan, known: TokenTargets, record: StepRecorder) -> TokenTargets:
        with record.timing("old"):
            return replace(known, old_logprobs_N=self._measure(plan, self._actor.logprobs))

    def _with_reference(
        self, plan: Plan, known: TokenTargets, record: StepRecorder
    ) -> TokenTargets:
        assert self._reference is not None, "an algorithm with a KL term has a reference"
        with record.timing("reference"):
            measured_N = self._measure(plan, self._reference.logprobs)
            return replace(known, reference_logprobs_N=measured_N)

    def _measure(self, plan: Plan, one_row: Pass) -> Tensor:
        measured_N = plan.measure(one_row, self.peers)
        for root in self._roots:
            release(root)
        return measured_N

    @property
    def _kl_is_reward(self) -> bool:
        return self._algorithm.kl is not None and self._algorithm.kl.place == "reward"

    def _sampled_by_these_weights(self, batch: Batch, version: int | None) -> bool:
        fresh = version is not None and bool((batch.versions_N == version).all())
        return self._sampler_matches and fresh

    def _advantages(
        self, batch: Batch, known: TokenTargets, record: StepRecorder
    ) -> tuple[TokenTargets, Tensor]:
        kl_N = self._kl_reward(batch, known)
        ordered = timeline(batch, kl_N=kl_N, values_N=known.values_N)
        output = self._algorithm.advantage(ordered.input)
        record.counts.update(diagnose_advantages(ordered.input, output))
        returns_N = output.returns_N
        credited_N = output.used_C[batch.chain_N]
        credited = replace(
            known,
            advantages_N=ordered.back(output.advantages_N).where(credited_N, 0.0),
            returns_N=None if returns_N is None else ordered.back(returns_N),
            credited_N=credited_N,
        )
        return credited, output.used_C

    def _kl_reward(self, batch: Batch, known: TokenTargets) -> Tensor | None:
        kl = self._algorithm.kl
        if kl is None or kl.place != "reward":
            return None
        measured_N = known.old_logprobs_N
        policy_N = batch.sampled_logprobs_N if measured_N is None else measured_N
        assert known.reference_logprobs_N is not None, "measured before the credit"
        estimate_N = kl_estimate(policy_N, known.reference_logprobs_N, kl.estimator)
        return kl.coefficient * estimate_N

    def _update(
        self, minibatch: Minibatch, known: TokenTargets, lr: float, record: StepRecorder
    ) -> None:
        record.means["computed_tokens"].append(minibatch.computed_tokens)
        with record.timing("update"):
            self._actor.update(minibatch, known, lr, record)
        if self._critic is not None:
            with record.timing("critic"):
                own_lr = learning_rate(self.step, self._train.of_critic())
                record.counts["critic/lr"] = own_lr
                self._critic.update(minibatch, known, own_lr, record)


def _count_active(plan: Plan, record: StepRecorder) -> None:
    batches = [minibatch.batch for minibatch in plan.minibatches]
    samples = [sample for batch in batches for sample in batch.samples]
    record.counts["chains_used"] = sum(len(batch.chains) for batch in batches)
    record.counts["trained_tokens"] = sum(map(len, batches))
    record.counts["total_tokens"] = sum(len(sample.token_ids) for sample in samples)


def _count(found: TrainableChains, record: StepRecorder) -> None:
    rewards_C = torch.tensor([chain.reward for chain in found.chains])
    record.counts["chains"] = len(rewards_C)
    if len(rewards_C):
        record.counts["reward_mean"] = float(rewards_C.mean())
        record.counts["reward_std"] = float(rewards_C.std(correction=0))
    for reason, count in found.left_out.items():
        record.counts[f"left_out/{reason}"] = count
