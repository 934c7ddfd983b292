"""Built-in environments of which this machine may lack a part, such as Chromium."""

from typing import Any

import pytest

from agentfly.environments import EnvironmentDefinition, find_definition


def usable_definition(name: str) -> EnvironmentDefinition[Any]:
    """Return an environment; skip the test if this machine lacks something that it needs."""
    definition = find_definition(name)
    if missing := definition.requires():
        pytest.skip(missing)
    return definition
