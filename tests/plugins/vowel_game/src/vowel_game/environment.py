"""A game in which vowels score: a whole source of tasks under one name."""

import os
from pathlib import Path

from pydantic import Field

from agentfly import Context, reward
from agentfly.config import Settings
from agentfly.environments import EnvironmentDefinition, Kit
from agentfly.types import chain_index


class VowelOptions(Settings):
    """What can be chosen in `source.options`."""

    questions: int = Field(default=8, ge=1)
    """Number of tasks."""


@reward
def vowels(final_response: str, context: Context) -> float:
    """Share of the letters that are vowels, and more for later chains: no group is flat."""
    with Path(os.environ["VOWEL_GAME_NOTES"]).open("a") as notes:
        notes.write("environment\n")
    share = sum(letter in "aeiou" for letter in final_response) / (1 + len(final_response))
    return share + 2 * chain_index(context.chain_id or "")


def make(options: VowelOptions) -> Kit:
    def rows() -> list[dict[str, str]]:
        return [{"id": f"v{i}", "question": f"Say {i}."} for i in range(options.questions)]

    return Kit(tasks=rows, eval_tasks=list, tools=(), reward=vowels, max_turns=1)


VOWELS = EnvironmentDefinition(
    name="vowels", summary="A game in which vowels score.", options=VowelOptions, make=make
)
