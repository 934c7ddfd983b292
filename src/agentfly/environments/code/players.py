"""Players that have the solution: they run it with the tool, or give it as their answer."""

from collections.abc import Generator

from agentfly.environments.player import Player, Say, Scene, call

_DONE = Say("Done.")
_Playing = Generator[Say, str, None]


def make_expert(tool: str, *, keeps_variables: bool) -> Player:
    """Return a player that computes with a tool before it answers.

    Args:
        tool: The tool that runs code.
        keeps_variables: Whether a call may build on the one before it.
    """

    def expert(scene: Scene) -> _Playing:
        fields = scene.task.fields
        if "cells" in fields:
            cells: list[str] = fields["cells"]
            yield from _compute(tool, cells if keeps_variables else ["\n".join(cells)])
        elif "solution" in fields and "cases" not in fields:
            yield call(tool, code=fields["solution"])
            yield _DONE
        else:  # A program that reads an input can't be run without one.
            yield from gold(scene)

    return expert


def gold(scene: Scene) -> _Playing:
    """Answer with the known solution."""
    fields = scene.task.fields
    if "solution" in fields:
        yield Say(f"```python\n{fields['solution']}\n```")
        yield _DONE  # For agents that run a block of code as a call.
    else:
        yield Say(str(fields["answer"]))


def _compute(tool: str, cells: list[str]) -> _Playing:
    shown = ""
    for cell in cells:
        shown = yield call(tool, code=cell)
    yield Say(shown.strip().splitlines()[-1])
