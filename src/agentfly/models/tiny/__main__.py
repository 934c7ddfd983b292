"""Make a tiny model: `python -m agentfly.models.tiny tiny-5m --seed 0 --out my-tiny`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from agentfly.models.model_cache import progress_bar
from agentfly.models.tiny.build import RECIPES, build_pretrained, build_tokenizer
from agentfly.runtime.names import look_up


def main(
    size: str,
    out: Annotated[Path, typer.Option(help="An empty or new folder.")],
    seed: Annotated[int, typer.Option(help="Of the weights, the data and the measure.")] = 0,
    *,
    tokenizer: Annotated[bool, typer.Option(help="Only train the shared tokenizer.")] = False,
) -> None:
    """Pre-train a model of one of the sizes tiny, tiny-5m and tiny-15m, and write its folder."""
    recipe = replace(look_up(size, RECIPES, "size"), seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    if tokenizer:
        build_tokenizer(out)
        return
    with progress_bar(size) as progress:
        build_pretrained(out, progress, recipe=recipe)


if __name__ == "__main__":
    typer.run(main)
