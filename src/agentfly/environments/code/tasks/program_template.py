"""Templates of programming tasks, and the split into training and held-out tasks."""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from string import Template
from typing import Any


def is_held_out(key: str, *, one_in: int) -> bool:
    """Return whether the task of a key is held out; independent of any seed.

    >>> sum(is_held_out(str(number), one_in=8) for number in range(800))
    99
    """
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest) % one_in == 0


Row = dict[str, Any]
Arguments = tuple[Any, ...]

TESTS = 8
"""Number of hidden tests of a task, in addition to those of its edge cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTemplate:
    """A function to write, with placeholders such as `$k`."""

    name: str
    parameters: str
    """Parameters of the function: "numbers"."""
    returns: str
    """Description of the result: "the multiples of $k among `numbers`, in order"."""
    body: str
    """Body of a correct solution."""
    level: int
    arguments: Callable[[Random], Arguments]
    """Draws arguments of the function."""
    choices: Mapping[str, Sequence[Any]]
    """Possible values of each placeholder."""
    edges: tuple[Arguments, ...] = ()
    """Arguments that are always among the tests."""
    held_out: bool = field(default=False)
    """Whether all tasks of this template are held out."""

    def rows(self, *, held_out: bool) -> Iterator[Row]:
        """Return the tasks on one side of the split."""
        for values in itertools.product(*self.choices.values()):
            filling = dict(zip(self.choices, values, strict=True))
            key = f"{self.name} {filling}"
            if held_out is (self.held_out or is_held_out(key, one_in=5)):
                yield self._row(key, filling)

    def _row(self, key: str, filling: dict[str, Any]) -> Row:
        lines = Template(self.body).substitute(filling).splitlines()
        solution = "\n".join([f"def {self.name}({self.parameters}):", *(f"    {x}" for x in lines)])
        example, *hidden = self._calls(Random(key))
        function = _function(solution, self.name)
        shown = f"`{self._call(example)}` returns `{function(*example)!r}`"
        wanted = Template(self.returns).substitute(filling)
        return {
            "id": f"program-{key}",
            "question": f"Write a Python function `{self.name}({self.parameters})` that returns "
            f"{wanted}. For example, {shown}.",
            "tests": [{"call": self._call(a), "expected": function(*a)} for a in hidden],
            "solution": solution,
            "level": self.level,
        }

    def _calls(self, rng: Random) -> list[Arguments]:
        """Draw different arguments: for the example, and for the tests."""
        drawn: dict[str, Arguments] = {}
        while len(drawn) <= TESTS:
            arguments = self.arguments(rng)
            if arguments not in self.edges:
                drawn[repr(arguments)] = arguments
        return [*drawn.values(), *self.edges]

    def _call(self, arguments: Arguments) -> str:
        return f"{self.name}({', '.join(map(repr, arguments))})"


def _function(solution: str, name: str) -> Callable[..., Any]:
    """Return the function that one of our own solutions defines."""
    made: dict[str, Any] = {}
    exec(solution, made)
    function: Callable[..., Any] = made[name]
    return function
