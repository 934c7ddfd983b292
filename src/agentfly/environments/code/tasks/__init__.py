"""Tasks to solve with code: generated ones, and the formats of well-known files."""

from agentfly.environments.code.tasks.datasets import (
    apps_rows,
    gsm8k_rows,
    humaneval_rows,
    mbpp_rows,
)
from agentfly.environments.code.tasks.math import math_rows
from agentfly.environments.code.tasks.programs import program_rows

__all__ = ["apps_rows", "gsm8k_rows", "humaneval_rows", "math_rows", "mbpp_rows", "program_rows"]
