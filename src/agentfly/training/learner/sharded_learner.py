"""A learner on several processes, seen from the one that runs the loop, and the others' part in it.

    rank 0                                    every other rank
    ShardedLearner(...)      ── setup ──►     take_part(...)
    learn(groups, mask)      ── chains ──►    learn_from(chains)
    weights(form, folder)    ── form ──►      weights(form, folder)
    save, restore, export    ── folder ──►    the same
    nothing for a while      ── beat ──►      wait on
    close()                  ── None ──►      end

Every process has a `LocalLearner` of the same settings; each call reaches all of them in the same
order. While there is no call, a beat shows each side that the other one is alive.
"""

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.distributed import DistError

from agentfly.algorithms import Algorithm, make_algorithm
from agentfly.chat import MaskPolicy
from agentfly.config import RunSettings
from agentfly.errors import ConfigError, LearnerLostError, RunError
from agentfly.training.learner.learner import LocalLearner
from agentfly.training.learner.memory import Memory
from agentfly.training.learner.peers import Peers
from agentfly.training.learner.policy import Policy
from agentfly.types import Group, NamedTensors, StepMetrics, Weights

BEATS_PER_TIMEOUT = 10
"""Signs of life that a waiting process receives within its timeout."""

READ_ALL, BEAT = "read_all", "beat"
"""Calls that are no methods of a learner."""

LOST = "the learner lost one of its processes"

_NOTHING: Any = None
"""Passed by processes that only receive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Parts of which every process makes its learner."""

    settings: RunSettings
    algorithm: bytes | None
    """Pickled; None where its name in the settings is enough."""
    path: tuple[str, ...]
    """Folders in which a user's own modules are found."""

    @classmethod
    def of(cls, settings: RunSettings, algorithm: Algorithm, *, named: bool) -> "Setup":
        """Prepare to send settings and algorithm; `named` if the settings name the algorithm."""
        try:
            pickled = None if named else pickle.dumps(algorithm)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ConfigError(
                f"the algorithm {algorithm.name} can't be sent to other learner processes: "
                f"{error}. Define its functions at the top of a module, or name it by "
                'algorithm.name = "module:name"'
            ) from error
        return cls(settings=settings, algorithm=pickled, path=tuple(sys.path))

    def learner(self, peers: Peers) -> LocalLearner:
        """Load the model and keep this process's part of it; those of a machine take turns."""
        sys.path += [folder for folder in self.path if folder not in sys.path]
        chosen = self.settings.algorithm
        algorithm: Algorithm = (
            make_algorithm(chosen.name, chosen.options)
            if self.algorithm is None
            else pickle.loads(self.algorithm)
        )
        with peers.in_turn():
            policy = Policy.load(self.settings.model, seed=self.settings.seed)
            return LocalLearner(policy, algorithm, self.settings, peers=peers)


class ShardedLearner:
    """Trains a policy on several processes, of which this one is the first."""

    def __init__(self, setup: Setup, peers: Peers) -> None:
        """Let all processes make their learners."""
        self._peers = peers
        self._lock = threading.Lock()
        self.failure: RunError | None = None
        """Why the other processes can't be reached any more."""
        self._closed = threading.Event()
        with self._together():
            self._local: LocalLearner = peers.from_first(setup).learner(peers)
        self._beats = threading.Thread(target=self._beat, name="agentfly-beat", daemon=True)
        self._beats.start()

    @property
    def policy(self) -> Policy:
        """The policy, of whose weights this process has a part."""
        return self._local.policy

    @property
    def step(self) -> int:
        """Steps learned so far."""
        return self._local.step

    @property
    def gives(self) -> Sequence[type[Weights]]:
        """Forms in which `weights` can give the weights, the cheapest first."""
        return self._local.gives

    def memory(self) -> Memory:
        """Estimate what an update will take in each process, beyond the weights."""
        return self._local.memory()

    def learn(
        self, groups: Sequence[Group], mask: MaskPolicy, *, version: int | None = None
    ) -> StepMetrics:
        """Learn from one step's groups; the mask is applied in this process."""
        del version  # The sampler has weights of its own.
        metrics: StepMetrics = self._call("learn_from", self._local.trainable(groups, mask))
        return metrics

    def logprobs(self, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Return the log-probabilities of tokens after a prompt, as the learner computes them."""
        found: list[float] = self._call("logprobs", tuple(prompt), tuple(tokens))
        return found

    def weights(self, form: type[Weights], folder: Path) -> Weights:
        """Return the current weights; files are written by all processes."""
        if form is NamedTensors:
            return NamedTensors(stream=self._stream)
        weights: Weights = self._call("weights", form, folder)
        return weights

    def save(self, folder: Path) -> None:
        """Write the model as a Hugging Face folder, and next to it what is needed to continue."""
        self._call("save", folder)

    def restore(self, folder: Path) -> None:
        """Continue exactly where a learner of the same settings stood, on any number of them."""
        self._call("restore", folder)

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder, adapters merged, to be used anywhere."""
        self._call("export", folder)

    def close(self) -> None:
        """Let the other processes end."""
        self._closed.set()
        self._beats.join()
        if self.failure is None:
            with self._together():
                self._peers.from_first(None)

    def _call(self, method: str, *arguments: Any) -> Any:
        with self._together():
            self._peers.from_first((method, arguments))
            return getattr(self._local, method)(*arguments)

    def _stream(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield all weights, gathered one by one; to the end even if the reader stops early."""
        with self._together():
            self._peers.from_first((READ_ALL, ()))
            tensors = iter(self._local.policy.tensors())
            try:
                for tensor in tensors:
                    yield tensor.name, tensor.read()
            finally:
                for tensor in tensors:
                    tensor.read()

    def _together(self) -> "_Together":
        return _Together(self)

    def _beat(self) -> None:
        seconds = self._peers.settings.timeout_seconds / BEATS_PER_TIMEOUT
        while not self._closed.wait(seconds) and self.failure is None:
            if self._lock.acquire(blocking=False):
                try:
                    self._peers.from_first((BEAT, ()))
                except RuntimeError as error:
                    self.note_lost(str(error))
                finally:
                    self._lock.release()

    def note_lost(self, reason: str) -> LearnerLostError:
        """Note that other processes can't be reached; every later call raises this error."""
        if isinstance(self.failure, LearnerLostError):
            return self.failure
        lost = LearnerLostError(f"{LOST}: {reason}")
        self.failure = lost
        return lost

    def note_failed(self, error: Exception) -> None:
        """Note that a call failed here: the others wait for what never comes."""
        self.failure = self.failure or RunError(f"an earlier call of the learner failed: {error}")


class _Together:
    """A call that all processes take part in, one at a time."""

    def __init__(self, learner: ShardedLearner) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        self._learner._lock.acquire()
        if self._learner.failure is not None:
            self._learner._lock.release()
            raise self._learner.failure

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, Exception) and _is_lost(error):
                raise self._learner.note_lost(str(error)) from error
            if isinstance(error, Exception):
                self._learner.note_failed(error)
        finally:
            self._learner._lock.release()


def _is_lost(error: BaseException) -> bool:
    """Return whether an error is one of a collective: another process is gone, or too late."""
    backend = any(sign in str(error) for sign in ("gloo", "NCCL", "Timed out"))
    return isinstance(error, DistError) or (isinstance(error, RuntimeError) and backend)


def take_part(
    peers: Peers, *, prepare: Callable[[RunSettings], AbstractContextManager[None]]
) -> None:
    """Do as the first process does, until it closes the learner.

    Args:
        peers: The processes.
        prepare: What holds in this process meanwhile, by the settings of the run.
    """
    setup: Setup = peers.from_first(_NOTHING)
    with prepare(setup.settings):
        _serve(setup.learner(peers), peers)


def _serve(local: LocalLearner, peers: Peers) -> None:
    while (call := peers.from_first(_NOTHING)) is not None:
        method, arguments = call
        if method == READ_ALL:
            for tensor in local.policy.tensors():
                tensor.read()
        elif method != BEAT:
            getattr(local, method)(*arguments)
