"""The same mathematics once more: by loops over chains and numbers, in other forms of the formulas.

Nothing here is shared with the product: no code, no tensors, no flat layout.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
from tests.algorithms.steps import Chain, Step, Token

Credits = list[list[float]]
"""For each chain the advantage of each of its tokens."""


# Rewards ---------------------------------------------------------------------------------------


def rewards_of_turns(chain: Chain, *, kl: bool) -> list[float]:
    assert chain.reward is not None
    earned = [turn.reward for turn in chain.turns]
    earned[-1] = chain.reward - sum(earned[:-1])
    if kl:
        earned = [
            reward - math.fsum(token.kl for token in turn.tokens)
            for reward, turn in zip(earned, chain.turns, strict=True)
        ]
    return earned


def rewards_of_tokens(chain: Chain, *, kl: bool) -> list[float]:
    """Walk back from each turn to the nearest token that was trained."""
    where = [u for u, turn in enumerate(chain.turns) for _ in turn.tokens]
    rewards = [-token.kl if kl else 0.0 for token in chain.tokens]
    for u, reward in enumerate(rewards_of_turns(chain, kl=False)):
        for t in range(len(where) - 1, -1, -1):
            if where[t] <= u:
                rewards[t] += reward
                break
    return rewards


def total(chain: Chain, *, kl: bool) -> float:
    assert chain.reward is not None
    return chain.reward - math.fsum(token.kl for token in chain.tokens if kl)


# Normalization ---------------------------------------------------------------------------------


def mean(values: Sequence[float]) -> float:
    return float(np.mean(np.asarray(values, dtype=np.float64)))


def differ(values: Sequence[float]) -> bool:
    """Beyond what rounding can do."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return high - low > 0.000001 * max(abs(low), abs(high))


def spread(values: Sequence[float]) -> float:
    """The unbiased standard deviation by all pairs, without a mean."""
    n = len(values)
    squares = [(values[i] - values[j]) ** 2 for i in range(n) for j in range(i)]
    return math.sqrt(math.fsum(squares) / (n * (n - 1)))


def z_scores(values: Sequence[float]) -> list[float]:
    if not differ(values):
        return [0.0] * len(values)
    scale = 1 / (spread(values) + 0.0001)
    return [scale * value - scale * mean(values) for value in values]


def by_key(
    keys: Sequence[Hashable], values: Sequence[float], rule: Callable[[list[float]], list[float]]
) -> tuple[list[float], list[bool]]:
    """Apply a rule among equal keys, where there are two different values at least."""
    places = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    results, used = [0.0] * len(values), [False] * len(values)
    for among in places.values():
        chosen = [values[place] for place in among]
        if differ(chosen):
            for place, result in zip(among, rule(chosen), strict=True):
                results[place], used[place] = result, True
    return results, used


# Advantages ------------------------------------------------------------------------------------


def of_chains(step: Step, values: Sequence[float]) -> Credits:
    return [[value] * len(c.tokens) for c, value in zip(step, values, strict=True)]


def grouped(
    step: Step, rule: Callable[[list[float]], list[float]], *, kl: bool
) -> tuple[Credits, list[bool]]:
    values, used = by_key([c.group for c in step], [total(c, kl=kl) for c in step], rule)
    return of_chains(step, values), used


def centered(values: list[float]) -> list[float]:
    return [value - math.fsum(values) / len(values) for value in values]


def leave_one_out(values: list[float]) -> list[float]:
    return [value - mean(values[:i] + values[i + 1 :]) for i, value in enumerate(values)]


def discounted_to_go(rewards: Sequence[float], discount: float) -> list[float]:
    return [
        math.fsum(discount**later * reward for later, reward in enumerate(rewards[start:]))
        for start in range(len(rewards))
    ]


def gae(
    step: Step, *, discount: float, trace: float, normalize: bool, kl: bool
) -> tuple[Credits, Credits]:
    """As the mixture of all n-step advantages, (1 - λ) Σ λⁿ⁻¹ A⁽ⁿ⁾; and the returns."""
    raw, returns = [], []
    for chain in step:
        rewards = rewards_of_tokens(chain, kl=kl)
        values = [token.value for token in chain.tokens]
        raw.append([_mixture(rewards, values, t, discount, trace) for t in range(len(values))])
        returns.append([a + v for a, v in zip(raw[-1], values, strict=True)])
    return (_normalized_over_tokens(raw) if normalize else raw), returns


def _mixture(
    rewards: Sequence[float], values: Sequence[float], t: int, discount: float, trace: float
) -> float:
    left = len(rewards) - t
    n_step = []
    for n in range(1, left + 1):
        gained = math.fsum(discount**k * rewards[t + k] for k in range(n))
        ahead = discount**n * values[t + n] if n < left else 0.0
        n_step.append(gained + ahead - values[t])
    mixed = math.fsum((1 - trace) * trace**n * n_step[n] for n in range(left - 1))
    return mixed + trace ** (left - 1) * n_step[-1]


def reinforce_plus_plus(step: Step, *, discount: float, kl: bool) -> Credits:
    to_go = [discounted_to_go(rewards_of_tokens(c, kl=kl), discount) for c in step]
    return _normalized_over_tokens(to_go)


def reinforce_plus_plus_baseline(
    step: Step, *, kl: bool, whole_step: bool
) -> tuple[Credits, list[bool]]:
    credit, used = grouped(step, centered, kl=kl)
    if whole_step:
        return _normalized_over_tokens(credit), [any(used)] * len(step)
    kept = [c for c, on in zip(credit, used, strict=True) if on]
    normalized = iter(_normalized_over_tokens(kept))
    return [next(normalized) if on else c for c, on in zip(credit, used, strict=True)], used


def reinforce(step: Step, *, baseline: bool, kl: bool) -> Credits:
    totals = [total(c, kl=kl) for c in step]
    return of_chains(step, centered(totals) if baseline else totals)


def per_turn(step: Step, *, discount: float, kl: bool) -> tuple[Credits, list[bool]]:
    keys = [chain.group for chain in step for _ in chain.turns]
    values, used_turns = by_key(keys, _returns(step, discount, kl=kl), z_scores)
    used = _by_chain(step, used_turns, any)
    return _of_turns(step, values, [0.0] * len(step), used), used


def gigpo(
    step: Step, *, discount: float, step_weight: float, scale: bool, kl: bool
) -> tuple[Credits, list[bool]]:
    rule = z_scores if scale else centered
    keys = [c.group for c in step]
    episode, used = by_key(keys, [total(c, kl=kl) for c in step], rule)
    states: list[Hashable] = [
        (c.group, turn.state) if turn.state != -1 else object() for c in step for turn in c.turns
    ]
    micro, compared = by_key(states, _returns(step, discount, kl=kl), rule)
    micro = [step_weight * value for value in micro]
    either = [a or b for a, b in zip(used, _by_chain(step, compared, any), strict=True)]
    either = _with_sibling(step, either)
    return _of_turns(step, micro, episode, either), either


def _returns(step: Step, discount: float, *, kl: bool) -> list[float]:
    return [r for c in step for r in discounted_to_go(rewards_of_turns(c, kl=kl), discount)]


def _by_chain(
    step: Step, flags: Sequence[bool], rule: Callable[[Sequence[bool]], bool]
) -> list[bool]:
    rest = iter(flags)
    return _with_sibling(step, [rule([next(rest) for _ in chain.turns]) for chain in step])


def _with_sibling(step: Step, flags: Sequence[bool]) -> list[bool]:
    groups = [chain.group for chain in step]
    return [on and groups.count(group) > 1 for on, group in zip(flags, groups, strict=True)]


def _of_turns(
    step: Step, values: Sequence[float], base: Sequence[float], used: Sequence[bool]
) -> Credits:
    rest = iter(values)
    credit = []
    for chain, own, on in zip(step, base, used, strict=True):
        of_each = [(turn, next(rest)) for turn in chain.turns]
        credit.append([(own + v if on else 0.0) for turn, v in of_each for _ in turn.tokens])
    return credit


def _normalized_over_tokens(credit: Credits) -> Credits:
    flat = iter(z_scores([value for values in credit for value in values]))
    return [[next(flat) for _ in values] for values in credit]


# Losses ----------------------------------------------------------------------------------------


def clipped(ratio: float, advantage: float, low: float, high: float, dual: float | None) -> float:
    """By cases of the advantage's sign, where the product takes a minimum."""
    if advantage >= 0:
        return -advantage * min(ratio, 1 + high)
    cost = max(ratio, 1 - low)
    return -advantage * (cost if dual is None else min(cost, dual))


def token_ratio(stream: Sequence[Token], t: int) -> float:
    return math.exp(stream[t].new) / math.exp(stream[t].old)


def held_sequence_ratio(stream: Sequence[Token], t: int, held: Mapping[int, float]) -> float:
    """The geometric mean as a number, times how far this token alone has moved since."""
    ratios = [math.exp(held[id(token)]) / math.exp(token.old) for token in stream]
    moved = math.exp(stream[t].new) / math.exp(held[id(stream[t])])
    return moved * float(np.prod(ratios) ** (1 / len(ratios)))


def kl(estimator: str, token: Token) -> float:
    p, q = math.exp(token.new), math.exp(token.reference)
    return {
        "k1": math.log(p / q),
        "k2": 0.5 * math.log(q / p) ** 2,
        "k3": q / p - 1 - math.log(q / p),
    }[estimator]


def weight(level: str, how: str, cap: float, stream: Sequence[Token], t: int) -> float:
    ratios = [math.exp(token.old) / math.exp(token.sampled) for token in stream]
    ratio = {
        "token": ratios[t],
        "sequence": math.exp(mean([math.log(r) for r in ratios])),
        "none": 1.0,
    }[level]
    inside = 1 / cap <= ratio <= cap
    return {"truncate": min(ratio, cap), "mask": ratio if inside else 0.0}[how]


def aggregated(how: str, step: Step, loss_of_chain: Sequence[Sequence[float]]) -> float:
    """Loop over chains, each with the losses of all its tokens over all its streams."""
    if how == "token_mean":
        return mean([loss for losses in loss_of_chain for loss in losses])
    if how == "sequence_mean_of_sums":
        return mean([math.fsum(losses) for losses in loss_of_chain])
    assert how == "sequence_mean_of_means"
    return mean([mean(losses) if losses else 0.0 for losses in loss_of_chain])


def value_loss(new: float, old: float, target: float, clip: float) -> float:
    """By cases: inside the range the plain error, outside it the worse of two."""
    if abs(new - old) <= clip:
        return (new - target) ** 2 / 2
    edge = old + math.copysign(clip, new - old)
    return max(abs(new - target), abs(edge - target)) ** 2 / 2
