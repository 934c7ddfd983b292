"""Every turn tells in which state it was taken, the first one too: turn-level credit needs it."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.environments.kit_play import play
from tests.usable_environments import usable_definition

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "alfworld": {"games": 1, "eval_games": 1, "size": "small"},
    "scienceworld": {"tasks": ("find-animal",), "simplifications": ("easy",), "variations": 1},
    "webshop": {"products": 60},
}


@pytest.mark.parametrize("name", OPTIONS)
async def test_chains_of_one_task_begin_in_one_state_and_leave_it(name: str) -> None:
    definition = usable_definition(name)
    made = definition.make(definition.options.model_validate(OPTIONS[name]))
    row = next(iter(made.tasks()))
    chains = [await play(made, row, made.expert) for _ in range(2)]
    one, same = ([turn.state_key for turn in chain.turns] for chain in chains)
    assert None not in one
    assert len(one) > 1
    assert one[0] != one[1]
    assert same == one
