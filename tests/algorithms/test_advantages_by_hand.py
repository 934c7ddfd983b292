"""Cases small enough for paper."""

import torch
from torch import Tensor

from agentfly.algorithms import AdvantageInput
from agentfly.algorithms.advantages import gae, gigpo, grpo, per_turn, reinforce_plus_plus, rloo
from agentfly.algorithms.credit import token_rewards


def one_chain(
    reward: float, turns: list[int], *, earned: list[float], **more: Tensor
) -> AdvantageInput:
    """A chain whose turns have these numbers of trained tokens, and earned these rewards."""
    return AdvantageInput(
        rewards_C=torch.tensor([reward]),
        group_C=torch.tensor([0]),
        chain_N=torch.zeros(sum(turns), dtype=torch.int64),
        turn_N=torch.repeat_interleave(torch.arange(len(turns)), torch.tensor(turns)),
        chain_U=torch.zeros(len(turns), dtype=torch.int64),
        rewards_U=torch.tensor(earned),
        state_U=torch.full((len(turns),), -1),
        **more,
    )


def same(got: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected))


def test_grpo() -> None:
    # mean 1/4; squared distances 9/16 + 3/16 = 3/4; over n - 1: 1/4; so the spread is 1/2
    same(grpo(torch.tensor([1.0, 0.0, 0.0, 0.0])), [0.75 / 0.5001] + [-0.25 / 0.5001] * 3)


def test_rloo() -> None:
    # others' means: 1, 3/2, 1/2
    same(rloo(torch.tensor([1.0, 0.0, 2.0])), [0.0, -1.5, 1.5])


def test_gae_over_two_turns() -> None:
    # Two turns of one and two tokens; what a tool said between them is not in the sequence.
    # surprises: 0.5·2 - 1 = 0;  0.5·4 - 2 = 0;  8 - 4 = 4;  carried back by 0.5·0.5
    x = one_chain(8.0, [1, 2], earned=[0.0, 0.0], values_N=torch.tensor([1.0, 2.0, 4.0]))
    output = gae(x, discount=0.5, trace=0.5, normalize=False)
    same(output.advantages_N, [0.25, 1.0, 4.0])
    assert output.returns_N is not None
    same(output.returns_N, [1.25, 3.0, 8.0])


def test_gae_without_trace_is_the_surprise_alone() -> None:
    x = one_chain(1.0, [3], earned=[0.0], values_N=torch.tensor([0.1, 0.2, 0.4]))
    same(gae(x, trace=0.0, normalize=False).advantages_N, [0.1, 0.2, 0.6])


def test_gae_with_a_full_trace_is_the_return_less_the_value() -> None:
    x = one_chain(1.0, [3], earned=[0.0], values_N=torch.tensor([0.1, 0.2, 0.4]))
    same(gae(x, normalize=False).advantages_N, [0.9, 0.8, 0.6])


def test_a_turns_reward_is_earned_at_its_last_token_and_the_rest_at_the_end() -> None:
    same(token_rewards(one_chain(1.0, [2, 3], earned=[0.2, 0.1])), [0.0, 0.2, 0.0, 0.0, 0.8])


def test_the_reward_of_a_turn_without_trained_tokens_goes_to_the_token_before() -> None:
    same(token_rewards(one_chain(1.0, [1, 0, 1], earned=[0.0, 0.3, 0.0])), [0.3, 0.7])


def test_a_reward_before_any_trained_token_is_credited_to_none() -> None:
    same(token_rewards(one_chain(1.0, [0, 2], earned=[0.4, 0.0])), [0.0, 0.6])


def test_the_divergence_comes_off_at_its_own_token() -> None:
    x = one_chain(1.0, [3], earned=[0.0], kl_N=torch.tensor([0.1, 0.2, 0.3]))
    same(token_rewards(x), [-0.1, -0.2, 0.7])


def test_reinforce_plus_plus_credits_what_follows() -> None:
    # returns to go: 0.4, 0.5, 0.7 (mean 8/15); spread of them 0.1527525
    x = one_chain(1.0, [3], earned=[0.0], kl_N=torch.tensor([0.1, 0.2, 0.3]))
    spread = 0.15275252 + 1e-4
    expected = [(r - 8 / 15) / spread for r in (0.4, 0.5, 0.7)]
    same(reinforce_plus_plus(x).advantages_N, expected)


def two_chains() -> AdvantageInput:
    """Two chains of two turns of one token; both begin in state 7, one of them goes back to it."""
    return AdvantageInput(
        rewards_C=torch.tensor([1.0, 0.0]),
        group_C=torch.tensor([0, 0]),
        chain_N=torch.tensor([0, 0, 1, 1]),
        turn_N=torch.arange(4),
        chain_U=torch.tensor([0, 0, 1, 1]),
        rewards_U=torch.zeros(4),
        state_U=torch.tensor([7, 3, 7, 7]),
    )


def test_gigpo() -> None:
    # episode: ±1/2. Returns by γ = 1/2: 1/2, 1, 0, 0. In state 7: 1/2, 0, 0, of mean 1/6;
    # state 3 is seen once, which compares nothing.
    output = gigpo(two_chains(), discount=0.5, step_weight=3.0, scale_by_std=False)
    same(output.advantages_N, [0.5 + 1.0, 0.5, -0.5 - 0.5, -0.5 - 0.5])


def test_per_turn() -> None:
    # returns 1/2, 1, 0, 0: mean 3/8, squared distances 1/64 + 25/64 + 9/64 + 9/64 = 44/64, over 3
    output = per_turn(two_chains(), discount=0.5)
    spread = (44 / 64 / 3) ** 0.5 + 1e-4
    same(output.advantages_N, [(r - 3 / 8) / spread for r in (0.5, 1.0, 0.0, 0.0)])
