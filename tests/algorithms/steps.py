"""Random steps as a person would tell them: chains of turns of tokens; and the same as tensors."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from agentfly.algorithms import AdvantageInput, LossInput


@dataclass
class Token:
    new: float
    """Log-probabilities: under the weights in training, before the step, of sampler, reference."""
    old: float
    sampled: float
    reference: float
    entropy: float
    value: float
    kl: float
    advantage: float


@dataclass
class Turn:
    reward: float
    state: int
    stream: int
    tokens: list[Token]


@dataclass
class Chain:
    group: int
    reward: float | None
    turns: list[Turn] = field(default_factory=list)

    @property
    def tokens(self) -> list[Token]:
        return [token for turn in self.turns for token in turn.tokens]


Step = list[Chain]


def random_step(seed: int) -> Step:
    """Groups of one to five; some chains unscored, some cut in two; some groups without spread."""
    rng = random.Random(seed)
    chains = [
        _chain(rng, group, flat=rng.random() < 0.25)
        for group in range(rng.randint(1, 5))
        for _ in range(rng.randint(1, 5))
    ]
    rng.shuffle(chains)
    chains.append(_chain(rng, 0, flat=False))
    chains[-1].reward = 0.3
    return chains


def scored(step: Step) -> Step:
    """Leave out the unscored chains, and number the groups that are left."""
    left = [chain for chain in step if chain.reward is not None]
    number = {group: i for i, group in enumerate(dict.fromkeys(chain.group for chain in left))}
    return [Chain(number[c.group], c.reward, c.turns) for c in left]


def advantage_input(step: Step, *, kl: bool = False, values: bool = False) -> AdvantageInput:
    chain_U = [c for c, chain in enumerate(step) for _ in chain.turns]
    turns = [turn for chain in step for turn in chain.turns]
    tokens = [token for chain in step for token in chain.tokens]
    return AdvantageInput(
        rewards_C=_float([chain.reward or 0.0 for chain in step]),
        group_C=_int([chain.group for chain in step]),
        chain_N=_int([c for c, chain in enumerate(step) for _ in chain.tokens]),
        turn_N=_int([u for u, turn in enumerate(turns) for _ in turn.tokens]),
        chain_U=_int(chain_U),
        rewards_U=_float([turn.reward for turn in turns]),
        state_U=_int([turn.state for turn in turns]),
        kl_N=_float([token.kl for token in tokens]) if kl else None,
        values_N=_float([token.value for token in tokens]) if values else None,
    )


def streams(step: Step) -> Iterator[tuple[Chain, list[Token]]]:
    """Yield each token stream with its chain."""
    for chain in step:
        for stream in dict.fromkeys(turn.stream for turn in chain.turns):
            tokens = [t for turn in chain.turns if turn.stream == stream for t in turn.tokens]
            if tokens:
                yield chain, tokens


def loss_input(step: Step, part: list[tuple[Chain, list[Token]]] | None = None) -> LossInput:
    """Make one microbatch of the whole step, or of some of its streams."""
    chosen = list(streams(step)) if part is None else part
    tokens = [token for _, stream in chosen for token in stream]
    return LossInput(
        logprobs_N=_float([token.new for token in tokens]).requires_grad_(),
        old_logprobs_N=_float([token.old for token in tokens]),
        sampled_logprobs_N=_float([token.sampled for token in tokens]),
        advantages_N=_float([token.advantage for token in tokens]),
        sample_N=_int([i for i, (_, stream) in enumerate(chosen) for _ in stream]),
        chain_tokens_N=_float([len(chain.tokens) for chain, stream in chosen for _ in stream]),
        num_tokens=sum(len(chain.tokens) for chain in step),
        num_chains=len(step),
        reference_logprobs_N=_float([token.reference for token in tokens]),
        entropy_N=_float([token.entropy for token in tokens]),
    )


def _chain(rng: random.Random, group: int, *, flat: bool) -> Chain:
    reward = None if rng.random() < 0.15 else 0.5 if flat else rng.choice([0.0, 1.0, rng.random()])
    turns = rng.randint(1, 4)
    cut = rng.randint(1, turns)
    return Chain(group, reward, [_turn(rng, int(index >= cut)) for index in range(turns)])


def _turn(rng: random.Random, stream: int) -> Turn:
    return Turn(
        reward=rng.choice([0.0, 0.0, 0.25, rng.gauss(0, 1)]),
        state=rng.choice([-1, 0, 1, 2]),
        stream=stream,
        tokens=[_token(rng) for _ in range(rng.choice([0, 1, 2, 3, 5]))],
    )


def _token(rng: random.Random) -> Token:
    old = -rng.expovariate(1.0)
    return Token(
        new=old + rng.gauss(0, 0.4),
        old=old,
        sampled=old + rng.gauss(0, 0.5),
        reference=old + rng.gauss(0, 0.5),
        entropy=rng.random(),
        value=rng.gauss(0, 1),
        kl=rng.gauss(0, 0.1),
        advantage=rng.choice([0.0, rng.gauss(0, 1), rng.gauss(0, 1)]),
    )


def _float(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _int(values: list[int]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)
