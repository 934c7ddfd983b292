"""The interpreter as a program of its own: `python -I start.py '{"limits": {…}, …}'`.

For the levels that start a process for each sandbox. Requests come on stdin, answers go to stdout.
"""

import fcntl
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

READING, WRITING = 200, 201
ADDRESS_SPACE = 256 << 20
"""Bytes that a bare interpreter takes, with room to spare."""


def main(settings: dict[str, Any]) -> None:
    """Limit this process, confine it if asked to, and serve."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from agentfly.sandbox.inside import confine
    from agentfly.sandbox.interpreter import main as interpreter
    from agentfly.sandbox.limits import SandboxLimits

    sys.path.pop(0)
    limits = SandboxLimits(**settings["limits"])
    _enter(Path(settings["box"]))
    _move_channel()
    confine.set_limits(limits, ADDRESS_SPACE, count_processes=settings["count_processes"])
    if settings["confine"]:
        confine.fork_workers()
        confine.restrict_process()
    interpreter.seed_generators(settings["seed"])
    interpreter.serve(interpreter.Interpreter(limits), READING, WRITING)


def _enter(box: Path) -> None:
    for folder in ("work", "tmp", "shm"):
        (box / folder).mkdir(exist_ok=True)
    os.chdir(box / "work")


def _move_channel() -> None:
    """Put the channel out of the way, nothing at stdin, and nameless files at stdout and stderr.

    What is printed is appended, or the next cell's would begin where the last one's ended, after
    a hole.
    """
    os.dup2(0, READING, inheritable=False)
    os.dup2(1, WRITING, inheritable=False)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number in (1, 2):
        with tempfile.TemporaryFile() as file:
            flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
            fcntl.fcntl(file.fileno(), fcntl.F_SETFL, flags | os.O_APPEND)
            os.dup2(file.fileno(), number)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
