"""When a run is done before its last step."""

from collections import deque
from collections.abc import Iterable


class Target:
    """Reached once the mean training reward of the last few steps is high enough.

    Held-out rewards are never looked at: a run that stopped by them would have chosen its own
    result.

    >>> target = Target(0.8, window=2)
    >>> for reward in (0.9, 0.6, 0.9, 0.8):
    ...     target.take(reward)
    ...     print(target.reached)
    False
    False
    False
    True
    """

    def __init__(self, reward: float | None, *, window: int, earlier: Iterable[float] = ()) -> None:
        self._reward = reward
        self._last = deque(earlier, maxlen=window)

    def take(self, reward: float | None) -> None:
        """Take in the reward of one more step; a step without scored chains counts for nothing."""
        if reward is not None:
            self._last.append(reward)

    @property
    def reached(self) -> bool:
        """Tell whether there is nothing left to do."""
        if self._reward is None or len(self._last) < (self._last.maxlen or 0):
            return False
        return sum(self._last) / len(self._last) >= self._reward
