"""Values for variables of a chat template, as a person gives them on the command line."""

from typing import Annotated, Any

import typer

from agentfly.config.override import override
from agentfly.config.problem import refuse_if_any

TemplateOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--template-option",
        help="A variable of the chat template: enable_thinking=false. Can be repeated.",
        metavar="KEY=VALUE",
    ),
]


def read_template_options(options: list[str] | None) -> dict[str, Any]:
    """Read options as overrides of settings are read.

    >>> read_template_options(["enable_thinking=false", "reasoning_effort=low"])
    {'enable_thinking': False, 'reasoning_effort': 'low'}
    """
    read = override({}, options or [])
    refuse_if_any(read.problems, None)
    return read.data
