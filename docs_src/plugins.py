from torch import Tensor

from agentfly.algorithms import ClippedOptions, advantage, by_group, make_algorithm


@advantage
def scaled(rewards_G: Tensor, scale: float = 1.0) -> Tensor:
    """Compare with the group's mean."""
    return (rewards_G - rewards_G.mean()) * scale


class Shifted(ClippedOptions):
    """The same idea as a table of options, where one function is not enough."""

    shift: float = 0.5
    """Reward of a chain that is neither good nor bad."""

    def advantage(self):
        return by_group(lambda rewards_G: rewards_G - self.shift)


print(make_algorithm("__main__:scaled", {"scale": 0.5}).name)
print(make_algorithm("__main__:Shifted", {"shift": 0.1, "clip": {"high": 0.3}}).needs_group)
