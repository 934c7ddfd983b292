"""What a supervised warm start learns from: files of chains and of chats become samples."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentfly.chat import MaskPolicy, TemplateRenderer
from agentfly.config.sft_settings import SftDataSettings
from agentfly.errors import ConfigError
from agentfly.training.learner.sample import make_samples
from agentfly.training.supervised.best_of import Kept
from agentfly.training.supervised.chain_files import holds_chains, read_chains
from agentfly.training.supervised.chat_rows import read_chat_rows
from agentfly.types import Sample, Seed, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstrations:
    """Samples to learn from and to measure by; no task has some on both sides."""

    train: tuple[Sample, ...]
    held_out: tuple[Sample, ...]
    left_out: Counter[str] = field(default_factory=Counter)
    """How many conversations were left out, by reason."""

    @property
    def digest(self) -> str:
        """What tells these conversations from any others: the tokens, and which are trained."""
        digest = hashlib.sha256()
        for sample in (*self.train, None, *self.held_out):
            digest.update(repr(sample and (sample.token_ids, sample.mask)).encode())
        return digest.hexdigest()

    def __str__(self) -> str:
        parts = [f"{len(self.train)} to learn from", f"{len(self.held_out)} held out"]
        parts += [f"{count} left out ({reason})" for reason, count in self.left_out.items()]
        return f"conversations: {', '.join(parts)}"


def read_demonstrations(
    data: SftDataSettings,
    renderer: TemplateRenderer,
    *,
    mask: MaskPolicy,
    max_tokens: float,
    seed: Seed,
    base: Path | None = None,
) -> Demonstrations:
    """Read all that the settings name.

    Args:
        data: Which files, and what of them.
        renderer: Of the model that learns.
        mask: Which of the assistant's tokens carry loss.
        max_tokens: A longer conversation is left out, and counted.
        seed: Decides what is held out.
        base: The folder that files are named from; by default the working directory.
    """
    given = _read(data.files, data, renderer, base)
    others = _read(data.held_out, data, renderer, base)
    train, held_out = given.trajectories, others.trajectories
    if not data.held_out:
        train, held_out = _split(train, data.held_out_share, seed)
    left_out = given.left_out + others.left_out
    demonstrations = Demonstrations(
        train=_samples(train, mask, max_tokens, left_out),
        held_out=_samples(held_out, mask, max_tokens, left_out),
        left_out=left_out,
    )
    if not demonstrations.train:
        raise ConfigError(f"there is nothing to learn from; {demonstrations}")
    return demonstrations


def _read(
    names: Iterable[str], data: SftDataSettings, renderer: TemplateRenderer, base: Path | None
) -> Kept:
    trajectories: list[Trajectory] = []
    left_out: Counter[str] = Counter()
    for name in names:
        path = (base or Path()) / name
        if holds_chains(path):
            kept = read_chains(path, data, renderer)
            trajectories += kept.trajectories
            left_out += kept.left_out
        else:
            trajectories += read_chat_rows(name, renderer, base=base)
    return Kept(trajectories=tuple(trajectories), left_out=left_out)


def _split(
    trajectories: Sequence[Trajectory], share: float, seed: Seed
) -> tuple[tuple[Trajectory, ...], tuple[Trajectory, ...]]:
    """Hold a share of the tasks out, at least one: a task's chains resemble one another."""
    tasks = sorted(
        {trajectory.task.id for trajectory in trajectories},
        key=lambda task: seed.child("held out", task).value,
    )
    count = max(1, round(share * len(tasks))) if share and len(tasks) > 1 else 0
    held_out = set(tasks[:count])
    return (
        tuple(trajectory for trajectory in trajectories if trajectory.task.id not in held_out),
        tuple(trajectory for trajectory in trajectories if trajectory.task.id in held_out),
    )


def _samples(
    trajectories: Iterable[Trajectory], mask: MaskPolicy, max_tokens: float, left_out: Counter[str]
) -> tuple[Sample, ...]:
    """Flatten conversations; those without a trained token, and too long ones, are counted."""
    samples: list[Sample] = []
    for sample in (one for t in trajectories for one in make_samples(t, mask)):
        if not sample.num_trained:
            left_out["nothing of it is trained"] += 1
        elif len(sample.token_ids) > max_tokens:
            left_out[f"longer than {max_tokens:g} tokens"] += 1
        else:
            # The temperature that a chain was sampled at is no part of what it shows.
            samples.append(replace(sample, temperature=1.0))
    return tuple(samples)
