"""Players: two have the solution, and run it or give it as their answer; one computes at random."""

import re

from agentfly.environments.player import Play, Player, Say, Scene, call

_DONE = Say("Done.")


def make_expert(tool: str, *, keeps_variables: bool) -> Player:
    """Return a player that computes with a tool before it answers.

    Args:
        tool: The tool that runs code.
        keeps_variables: Whether a call may build on the one before it.
    """

    def expert(scene: Scene) -> Play:
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


def make_random(tool: str) -> Player:
    """Return a player that computes anything with two numbers of the question, and answers that."""

    def random(scene: Scene) -> Play:
        draw = scene.random
        numbers = [int(digits) for digits in re.findall(r"\d+", scene.observation)] or [1]
        left, right = draw.choices(numbers, k=2)
        yield from _compute(tool, [f"print({left} {draw.choice('+-*')} {right})"])

    return random


def gold(scene: Scene) -> Play:
    """Answer with the known solution."""
    fields = scene.task.fields
    if "solution" in fields:
        yield Say(f"```python\n{fields['solution']}\n```")
        yield _DONE  # For agents that run a block of code as a call.
    else:
        yield Say(str(fields["answer"]))


def _compute(tool: str, cells: list[str]) -> Play:
    shown = ""
    for cell in cells:
        shown = yield call(tool, code=cell)
    yield Say(shown.strip().splitlines()[-1])
