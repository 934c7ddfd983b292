"""A small run in a process of its own, which can be told to kill itself at a chosen moment.

    python small_run.py FOLDER [--steps N] [--resume] [--deterministic] [--max-staleness K]
                               [--kill MOMENT]

Moments: `tool:N` in the N-th call of the tool, `publish:N` while the weights of step N are
published, `rename:N` and `renamed:N` right before and after the N-th checkpoint gets its name,
`train:N` when the N-th update is about to begin.
"""

import argparse
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MOMENTS = ("tool", "train", "publish", "rename", "renamed")


def main(options: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--max-staleness", type=int, default=0)
    parser.add_argument("--kill")
    run(parser.parse_args(options))


def run(given: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    from tests.training.calling_kind import Calling

    from agentfly import Agent, Limits, SamplingParams, reward, tool
    from agentfly.config import RunSettings
    from agentfly.observe import RunProgress
    from agentfly.training import Source, Trainer

    deaths = Deaths(given.kill)

    @tool
    def note(text: str) -> str:
        """Note something down.

        Args:
            text: What to note.
        """
        deaths.tick("tool")
        return text.upper()

    @reward
    def vowels(final_response: str) -> float:
        """Count vowels: random weights can learn to write more of them."""
        return sum(letter in "aeiou" for letter in final_response) / (1 + len(final_response))

    deaths.install()
    settings = RunSettings.model_validate(
        {
            "name": "small",
            "folder": str(given.folder),
            "seed": 3,
            "deterministic": given.deterministic,
            "model": {"name": "tiny-random"},
            "rollout": {
                "tasks_per_step": 3,
                "num_chains": 4,
                "max_concurrent": 6,
                "max_staleness": given.max_staleness,
            },
            "train": {"steps": given.steps, "lr": 3e-3, "warmup_steps": 1, "schedule": "cosine"},
            "eval": {"every": 2, "num_chains": 2},
            "checkpoint": {"every": 1},
            "track": {"trackers": []},
        }
    )
    rows = [{"id": f"task{i}", "question": f"Say {i}."} for i in range(7)]
    agent = Agent(
        "tiny-random",
        tools=[note],
        reward=vowels,
        kind=Calling(),
        sampling=SamplingParams(max_tokens=12),
        limits=Limits(max_turns=2, max_invalid_calls=100),
    )
    source = Source(
        agent=agent,
        tasks=rows,
        eval_tasks=[{"id": f"held{i}", "question": f"Say {i}!"} for i in range(2)],
    )
    Trainer(source, settings, resume=given.resume, progress=RunProgress(quiet=True)).run()


class Deaths:
    """Kills this process at one moment."""

    def __init__(self, moment: str | None) -> None:
        name, _, count = (moment or "").partition(":")
        self._name = name
        self._left = int(count or 0)

    def tick(self, name: str) -> None:
        if name == self._name:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        from agentfly.engines.local import LocalEngine
        from agentfly.training.learner.learner import LocalLearner

        if self._name == "publish":
            self._wrap(LocalEngine, "publish", before="publish")
        if self._name == "train":
            self._wrap(LocalLearner, "learn", before="train")
        if self._name in ("rename", "renamed"):
            self._wrap_rename()

    def _wrap(self, owner: Any, method: str, *, before: str) -> None:
        original: Callable[..., Any] = getattr(owner, method)

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.tick(before)
            return original(*args, **kwargs)

        setattr(owner, method, wrapped)

    def _wrap_rename(self) -> None:
        for owner, method in ((Path, "rename"), (Path, "replace"), (os, "rename"), (os, "replace")):
            original = getattr(owner, method)

            def wrapped(*args: Any, original: Callable[..., Any] = original, **kwargs: Any) -> Any:
                checkpoint = str(args[0]).endswith(".part") and "checkpoints" in str(args[0])
                if checkpoint:
                    self.tick("rename")
                result = original(*args, **kwargs)
                if checkpoint:
                    self.tick("renamed")
                return result

            setattr(owner, method, wrapped)


if __name__ == "__main__":
    main()
