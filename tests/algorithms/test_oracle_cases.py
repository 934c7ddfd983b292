"""Whole updates on the cases where implementations differ, by loops over padded rows with a mask.

Advantages, loss and gradient of each token are worked out with plain numbers: a row holds all
positions of a chain, those of tools and templates too, and a masked position is skipped where it is
met. Gradients are written by cases, since a small step to both sides can't follow a ratio of e²⁰.
"""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.algorithms import oracle
from tests.algorithms.steps import Chain, Step, Token, Turn, advantage_input, loss_input, streams

from agentfly.algorithms import make_algorithm, objective

GAP = 3
"""Positions of a tool's answer before each turn."""

Row = list[Token | None]
"""None is a masked position."""


def token(rng: random.Random, log_ratio: float | None = None) -> Token:
    old = -rng.expovariate(1.0)
    moved = rng.gauss(0, 0.3) if log_ratio is None else log_ratio
    value, kl = rng.gauss(0, 1), rng.gauss(0, 0.1)
    return Token(old + moved, old, old, old, 0.0, value, kl, 0.0)


def chain(group: int, reward: float, *lengths: int, seed: int = 0, **more: Any) -> Chain:
    """Turns of so many trained tokens; 0 is a turn that is masked as a whole."""
    rng = random.Random(f"{group} {reward} {lengths} {seed}")
    rewards = more.get("turn_rewards", [0.0] * len(lengths))
    ratios = iter(more.get("log_ratios", []))
    turns = [
        Turn(earned, -1, 0, [token(rng, next(ratios, None)) for _ in range(length)])
        for length, earned in zip(lengths, rewards, strict=True)
    ]
    return Chain(group, reward, turns)


CASES: dict[str, Step] = {
    "single-member groups": [
        chain(0, 0.7, 2, 3),
        chain(1, 1.0, 4),
        chain(1, 0.0, 1, 1),
        chain(2, 0.2, 5),
    ],
    "flat groups beside others": [
        *(chain(0, 1.0, length, seed=length) for length in (2, 7, 3)),
        chain(1, 1.0, 2, 2),
        chain(1, 0.25, 6),
        *(chain(2, 0.0, length, seed=length) for length in (4, 1)),
    ],
    "rewards on masked tokens": [
        chain(0, 1.0, 2, 0, 3, turn_rewards=[0.0, 0.5, 0.25]),
        chain(0, 0.5, 0, 2, turn_rewards=[0.25, 0.0]),
        chain(0, 0.25, 3, 0, turn_rewards=[0.0, 0.25]),
    ],
    "gaps of tool tokens": [
        chain(0, 1.0, 1, 2, 1, 4),
        chain(0, 0.0, 3, 1, 1),
        chain(1, 0.5, 2, 2),
        chain(1, 0.75, 5),
    ],
    "log-ratios to ±20": [
        chain(0, 1.0, 4, log_ratios=[20.0, -20.0, 5.0, -5.0]),
        chain(0, 0.0, 4, log_ratios=[20.0, -20.0, 12.5, -12.5]),
        chain(0, 0.5, 2, log_ratios=[-20.0, 20.0]),
    ],
    "all-masked rows": [
        chain(0, 1.0, 2, 2),
        chain(0, 0.0, 3),
        chain(0, 0.25, 0, 0),
        chain(1, 1.0, 0),
    ],
}


def credit_of(name: str, step: Step) -> oracle.Credits:
    if name == "ppo":
        return oracle.gae(step, discount=1.0, trace=1.0, normalize=True, kl=False)[0]
    if name == "reinforce++":
        return oracle.reinforce_plus_plus(step, discount=1.0, kl=False)
    if name == "reinforce++-baseline":
        return oracle.reinforce_plus_plus_baseline(step, kl=False, whole_step=True)[0]
    rule = {"rloo": oracle.leave_one_out, "dr-grpo": oracle.centered}.get(name, oracle.z_scores)
    return oracle.grouped(step, rule, kl=False)[0]


def padded(step: Step) -> list[Row]:
    rows: list[Row] = [
        [position for turn in one.turns for position in (*[None] * GAP, *turn.tokens)]
        for one in step
    ]
    width = max(map(len, rows))
    return [row + [None] * (width - len(row)) for row in rows]


def token_form(row: Row, here: Token) -> float:
    return math.exp(here.new - here.old)


def sequence_form(row: Row, here: Token) -> float:
    moved = [position.new - position.old for position in row if position]
    return math.exp(sum(moved) / len(moved))


def update(
    rows: list[Row], credit: oracle.Credits, ratio_of: Callable[[Row, Token], float], name: str
) -> tuple[float, list[float]]:
    """Return the loss, and the gradient by each unmasked position's log-probability."""
    low, high = (3e-4, 4e-4) if name == "gspo" else (0.2, 0.2)
    all_tokens = sum(1 for row in rows for position in row if position)
    loss, gradient = 0.0, []
    for row, credits in zip(rows, credit, strict=True):
        unmasked = [position for position in row if position]
        for here, advantage in zip(unmasked, credits, strict=True):
            divided_by = {"gspo": len(unmasked) * len(rows), "dr-grpo": 512 * len(rows)}.get(
                name, all_tokens
            )
            ratio = ratio_of(row, here)
            clipped = min(max(ratio, 1 - low), 1 + high)
            held = clipped * advantage < ratio * advantage
            loss -= (clipped if held else ratio) * advantage / divided_by
            gradient.append(0.0 if held else -ratio * advantage / divided_by)
    return loss, gradient


NAMES = ["grpo", "rloo", "dr-grpo", "gspo", "ppo", "reinforce++", "reinforce++-baseline"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES)
def test_an_update_equals_loops_over_padded_rows(case: str, name: str) -> None:
    step = CASES[case]
    algorithm = make_algorithm(name, {"kl": {"coefficient": 0.0}})
    credit = credit_of(name, step)
    output = algorithm.advantage(advantage_input(step, values=name == "ppo"))
    flat = [value for credits in credit for value in credits]
    assert output.advantages_N.tolist() == pytest.approx(flat, rel=1e-8, abs=1e-9)

    ratio_of = sequence_form if name == "gspo" else token_form
    loss, gradient = update(padded(step), credit, ratio_of, name)
    x = replace(loss_input(step), advantages_N=output.advantages_N)
    found = objective(algorithm, x)
    found.loss.backward()
    assert float(found.loss.detach()) == pytest.approx(loss, rel=1e-9, abs=1e-12)
    assert x.logprobs_N.grad is not None
    assert x.logprobs_N.grad.tolist() == pytest.approx(gradient, rel=1e-9, abs=1e-12)


def test_the_cases_hold_what_they_are_called() -> None:
    def tokens(case: str) -> list[Token]:
        return [one for _, stream in streams(CASES[case]) for one in stream]

    moved = [one.new - one.old for one in tokens("log-ratios to ±20")]
    assert (min(moved), max(moved)) == pytest.approx((-20, 20), abs=1e-9)
    assert [len(one.tokens) for one in CASES["all-masked rows"]].count(0) == 2
    masked = [turn for one in CASES["rewards on masked tokens"] for turn in one.turns]
    assert any(turn.reward and not turn.tokens for turn in masked)
    gaps = padded(CASES["gaps of tool tokens"])
    assert all(row[:GAP] == [None] * GAP and any(row) for row in gaps)


@pytest.mark.parametrize("case", ["single-member groups", "flat groups beside others"])
def test_what_compares_nothing_has_no_credit(case: str) -> None:
    x = advantage_input(CASES[case])
    output = make_algorithm("grpo").advantage(x)
    assert not output.used_C.all()
    assert output.advantages_N[~output.used_C[x.chain_N]].eq(0).all()
