"""GRPO without the division by the spread, scaled by an option."""

import os
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from agentfly.algorithms import AdvantageFunction, ClippedOptions, by_group


class Scaled(ClippedOptions):
    """Rewards less the group's mean, times a number."""

    name: ClassVar[str] = "scaled"
    scale: float = 2.0
    """The number."""

    def advantage(self) -> AdvantageFunction:
        """Return the advantage function with its options filled in."""

        def scaled(rewards_G: Tensor) -> Tensor:
            with Path(os.environ["VOWEL_GAME_NOTES"]).open("a") as notes:
                notes.write(f"algorithm scale={self.scale}\n")
            return (rewards_G - rewards_G.mean()) * self.scale

        return by_group(scaled)
