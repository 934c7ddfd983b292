"""Judging code by hidden tests, outside the process that runs it.

    judge ──► Candidate      a sandbox that holds the code: it gets calls and inputs, nothing else
          └─► Examination    a sandbox that holds test programs, and asks the first one by proxy

Expected values never enter the candidate's sandbox, and its results are parsed as plain values, so
the code can't forge its verdict.
"""

from agentfly.environments.code.judging.judge import (
    JUDGE,
    Call,
    Case,
    Check,
    Program,
    Verdict,
    judge,
    read_cases,
)

__all__ = ["JUDGE", "Call", "Case", "Check", "Program", "Verdict", "judge", "read_cases"]
