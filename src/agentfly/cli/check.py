"""`agentfly check`: does a model's chat template keep its tokens?"""

import re
from pathlib import Path
from typing import Annotated

import typer

from agentfly.chat import ByteTokenizer, ChatTemplate, TemplateRenderer, check_template
from agentfly.cli.errors import told_plainly
from agentfly.models import resolve_model

_SPECIAL = re.compile(r"<\|[^|<>\s]+\|>|<｜[^｜<>\s]+｜>|\[/?[A-Z_]{3,}\]|</?s>")
"""What looks like a special token in the source of a template."""


def check(
    model: Annotated[
        str, typer.Argument(help="A model's folder or name, or a file with a Jinja chat template.")
    ],
    format: Annotated[
        str | None, typer.Option(help="The format of tool calls; by default what is detected.")
    ] = None,
) -> None:
    """Prove that a chat template keeps the tokens as sampled, or say how it doesn't.

    Conversations with tools are played through the template: does every prompt begin with all
    tokens before it, is the mask on exactly where tokens were sampled, how many tokens differ from
    a plain re-render, can a tool's output forge a special token?
    """
    with told_plainly():
        report = check_template(_renderer(model, format))
    typer.echo(str(report))
    raise typer.Exit(0 if report.ok else 1)


def _renderer(model: str, call_format: str | None) -> TemplateRenderer:
    path = Path(model)
    if not path.is_file():
        return TemplateRenderer.from_folder(resolve_model(model), format=call_format)
    source = path.read_text(encoding="utf-8")
    # A bare template names no tokenizer: bytes stand in, with what looks special taken as special.
    tokenizer = ByteTokenizer(tuple(dict.fromkeys(_SPECIAL.findall(source))))
    return TemplateRenderer(tokenizer, ChatTemplate(source), format=call_format)
