"""`agentfly check`: test that a model's chat template keeps sampled tokens."""

from pathlib import Path
from typing import Annotated, Any

import typer

from agentfly.chat import TemplateRenderer, check_template
from agentfly.chat.template_check.bare_template import bare_renderer
from agentfly.cli.command import TEMPLATE_OPTION, TemplateOptions, cli_errors, read_options
from agentfly.models import resolve_model


def check(
    model: Annotated[
        str, typer.Argument(help="A model's folder or name, or a file with a Jinja chat template.")
    ],
    format: Annotated[
        str | None, typer.Option(help="The format of tool calls; detected by default.")
    ] = None,
    *,
    template_option: TemplateOptions = None,
) -> None:
    """Check that a chat template keeps the tokens as sampled, or report how it fails.

    Conversations with tools go through the template and are compared with renderings by
    transformers: are the tokens the same, are the template's calls, answers and reasoning read
    back, does sampling stop where a turn ends, can any text forge a special token?
    """
    with cli_errors():
        options = read_options(template_option, TEMPLATE_OPTION)
        report = check_template(_renderer(model, format, options))
    typer.echo(str(report))
    raise typer.Exit(0 if report.ok else 1)


def _renderer(model: str, call_format: str | None, options: dict[str, Any]) -> TemplateRenderer:
    path = Path(model)
    if not path.is_file():
        return TemplateRenderer.from_folder(
            resolve_model(model), format=call_format, template_options=options
        )
    source = path.read_text(encoding="utf-8")
    return bare_renderer(source, format=call_format, template_options=options)
