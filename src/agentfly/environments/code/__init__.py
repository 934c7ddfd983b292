"""Code: an interpreter as a tool, and answers that are numbers or programs."""

from agentfly.environments.code.builtin import CODE, CodeOptions
from agentfly.environments.code.judging import Verdict, judge
from agentfly.environments.code.rewards import final_code, hidden_tests, stdin_cases, unit_tests
from agentfly.environments.code.tools import (
    OneShotPython,
    code_interpreter,
    list_files,
    python,
    read_file,
    shell,
    write_file,
)

__all__ = [
    "CODE",
    "CodeOptions",
    "OneShotPython",
    "Verdict",
    "code_interpreter",
    "final_code",
    "hidden_tests",
    "judge",
    "list_files",
    "python",
    "read_file",
    "shell",
    "stdin_cases",
    "unit_tests",
    "write_file",
]
