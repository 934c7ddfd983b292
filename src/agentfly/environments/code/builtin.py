"""The built-in environment `code`: its options, and the kit made from them."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from agentfly.environments.code import tools
from agentfly.environments.code.judging.literal import MAX_CHARACTERS
from agentfly.environments.code.players import gold, make_expert, make_random
from agentfly.environments.code.rewards import hidden_tests, right_number
from agentfly.environments.code.tasks import (
    apps_rows,
    gsm8k_rows,
    humaneval_rows,
    math_rows,
    mbpp_rows,
    program_rows,
)
from agentfly.environments.code.tasks.program_template import Row, is_held_out
from agentfly.environments.code.tools import OneShotPython
from agentfly.environments.index import INDEX
from agentfly.environments.kit import EnvironmentDefinition, EnvironmentOptions, Kit
from agentfly.sandbox import PythonSandbox, SandboxLimits
from agentfly.types import EnvSpec, Tool

_log = logging.getLogger(__name__)

_FILES: dict[str, Callable[[Path], Iterable[Row]]] = {
    "apps": apps_rows,
    "gsm8k": gsm8k_rows,
    "humaneval": humaneval_rows,
    "mbpp": mbpp_rows,
}
_WITH_NUMBERS = ("math", "gsm8k")
_NUMBER_PROMPT = "Compute with the tool. Then answer with the number alone."
_PROGRAM_PROMPT = "Write and try the code with the tool. Then answer with the code in one block."


class CodeOptions(EnvironmentOptions):
    """Options of the environment `code`: tasks, tool and limits."""

    tasks: Literal["math", "programs", "gsm8k", "humaneval", "mbpp", "apps"] = "math"
    """`math` and `programs` are generated; the others are the formats of files."""
    levels: tuple[Literal[1, 2, 3], ...] = Field(default=(1,), min_length=1)
    """Difficulty of generated tasks, 1 to 3; not for those of a `file`."""
    file: Path | None = None
    """JSON lines of the format that `tasks` names, plain or compressed by gzip."""
    eval_file: Path | None = None
    """Held-out tasks in the same format; by default every tenth of `file` is held out."""
    count: int = Field(default=2000, ge=1)
    """Maximum number of tasks to train on."""
    eval_count: int = Field(default=64, ge=1)
    """Maximum number of held-out tasks."""
    tool: Literal["code_interpreter", "python", "all"] = "code_interpreter"
    """`code_interpreter` keeps variables from call to call, `python` keeps nothing; `all` is the
    first one with a shell and files."""
    partial: bool = True
    """Whether each hidden test counts for its share of the reward; otherwise all must pass. Not for
    math and gsm8k, whose answer is a number."""
    seconds: float = Field(default=5.0, gt=0)
    """Time limit of one call, and of one test."""
    memory_mb: int = Field(default=256, ge=1)
    """Memory limit of the code, not counting the preloaded packages."""
    output_chars: int = Field(default=1000, ge=1)
    """Maximum characters of a call's output shown to the model."""
    preload: tuple[str, ...] = ()
    """Packages to import once for all sandboxes, in addition to numpy and sympy."""
    isolation: Literal["warm", "warm-without-landlock", "bubblewrap", "docker", "podman"] | None = (
        None
    )
    """Isolation of the sandbox; by default the strongest that needs no daemon."""
    unsafe: bool = False
    """Whether to run code without isolation where none is available."""

    @model_validator(mode="after")
    def _check_files(self) -> "CodeOptions":
        needed = self.tasks in _FILES
        if needed and self.file is None:
            raise ValueError(f"tasks = {self.tasks!r} needs `file`, the JSON lines to read")
        if not needed and (self.file or self.eval_file):
            key = "file" if self.file else "eval_file"
            *formats, last = _FILES
            raise ValueError(
                f"`{key}` needs tasks = {', '.join(formats)} or {last}, the format of the file; "
                f"tasks = {self.tasks!r} are generated"
            )
        self.refuse_without_effect(
            (not needed, ("levels",), "for generated tasks: math and programs"),
            (
                self.tasks not in _WITH_NUMBERS,
                ("partial",),
                "for tasks with hidden tests, and the answer of math and gsm8k is a number",
            ),
        )
        return self


def make(options: CodeOptions) -> Kit:
    """Make the kit; tasks are read or generated at their first use."""
    with_numbers = options.tasks in _WITH_NUMBERS
    main_tool = "python" if options.tool == "python" else "code_interpreter"
    return Kit(
        tasks=partial(_rows, options, held_out=False),
        eval_tasks=partial(_rows, options, held_out=True),
        tools=_tools(options),
        reward=right_number() if with_numbers else _judged(options),
        system_prompt=_NUMBER_PROMPT if with_numbers else _PROGRAM_PROMPT,
        max_turns=4 if with_numbers else 6,
        expert=make_expert(main_tool, keeps_variables=main_tool != "python"),
        # The solutions of generated sums are cells, so the expert tests the tool as well.
        gold=None if options.tasks == "math" else gold,
        random=make_random(main_tool) if with_numbers else None,
    )


def _rows(options: CodeOptions, *, held_out: bool) -> list[Row]:
    count = options.eval_count if held_out else options.count
    if options.file is not None:
        rows = list(islice(_from_files(options, options.file, held_out=held_out), count + 1))
        if len(rows) > count:
            _warn_of_left_out_tasks(options, held_out=held_out)
        return rows[:count]
    generate = math_rows if options.tasks == "math" else program_rows
    return generate(levels=options.levels, count=count, held_out=held_out)


def _warn_of_left_out_tasks(options: CodeOptions, *, held_out: bool) -> None:
    """Log a warning if the default of `count` or `eval_count` leaves out tasks of a file."""
    key = "eval_count" if held_out else "count"
    if key not in options.model_fields_set:
        file = (options.eval_file if held_out else None) or options.file
        _log.warning(
            "%s has more %stasks than %d, the default of `%s`: the rest is left out",
            *(file, "held-out " if held_out else "", getattr(options, key), key),
        )


def _from_files(options: CodeOptions, file: Path, *, held_out: bool) -> Iterable[Row]:
    read = _FILES[options.tasks]
    if options.eval_file is not None:
        return read(options.eval_file if held_out else file)
    return (row for row in read(file) if is_held_out(str(row["id"]), one_in=10) is held_out)


def _tools(options: CodeOptions) -> tuple[Tool, ...]:
    limits = _limits(options)
    made = _sandbox(options, limits)
    if options.tool == "python":
        return (tools.with_sandbox(tools.python, OneShotPython, made),)
    chosen = [tools.code_interpreter, *(tools.FILE_TOOLS if options.tool == "all" else ())]
    return tuple(tools.with_sandbox(one, PythonSandbox, made) for one in chosen)


def _judged(options: CodeOptions) -> Any:
    limits = replace(_limits(options), output_chars=MAX_CHARACTERS)
    made = _sandbox(options, limits)
    return hidden_tests(
        partial=options.partial,
        sandbox=EnvSpec(PythonSandbox, tuple(made.items())),
        total_seconds=4 * options.seconds,
    )


def _limits(options: CodeOptions) -> SandboxLimits:
    return SandboxLimits(
        seconds=options.seconds, memory_mb=options.memory_mb, output_chars=options.output_chars
    )


def _sandbox(options: CodeOptions, limits: SandboxLimits) -> dict[str, Any]:
    """Return the options of a sandbox; only those that are set, to keep its name short."""
    chosen = {name: getattr(options, name) for name in ("preload", "isolation", "unsafe")}
    return {"limits": limits, **{name: value for name, value in chosen.items() if value}}


CODE = EnvironmentDefinition(
    name="code",
    summary=INDEX["code"].summary,
    options=CodeOptions,
    make=make,
    requires=INDEX["code"].requires,
)
