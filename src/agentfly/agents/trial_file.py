"""The decisions of a run about worked examples: which sources show one, and why.

runs/demo/example.json
    {"v": 1, "kind": "examples", "sources": {"default": {
        "chains": 16, "calling": 0, "task": "57*83", "messages": [{"role": "user", …}, …]}}}
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfly.agents.kind import WorkedExample
from agentfly.errors import FormatError
from agentfly.observe.whole_file import whole_file
from agentfly.types import Message

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Result of the trial of one source."""

    chains: int
    calling: int
    """Chains with a successful call, without an example."""
    example: WorkedExample | None
    """None where the model needs none, or where none was found."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        found = self.example
        return {
            "chains": self.chains,
            "calling": self.calling,
            "task": found and found.task_id,
            "messages": [message.to_dict() for message in found.messages] if found else None,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Trial":
        """Read what `to_json` returned."""
        messages = value["messages"]
        example = messages and WorkedExample(
            messages=tuple(map(Message.from_dict, messages)), task_id=value["task"]
        )
        return cls(chains=value["chains"], calling=value["calling"], example=example or None)


def read_trials(file: Path) -> dict[str, Trial]:
    """Read a run's decisions; none where there is no file."""
    try:
        sources = json.loads(file.read_bytes())["sources"]
        return {name: Trial.from_json(value) for name, value in sources.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FormatError(
            f"{file} is damaged: {error}. Restore it from a copy: it has the example that the run "
            "was started with"
        ) from error


def write_trials(file: Path, trials: Mapping[str, Trial]) -> None:
    """Write a run's decisions, whole or not at all."""
    sources = {name: trial.to_json() for name, trial in trials.items()}
    content = {"v": FORMAT_VERSION, "kind": "examples", "sources": sources}
    with whole_file(file) as out:
        out.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
