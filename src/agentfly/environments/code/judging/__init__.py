"""Judging code by hidden tests, outside the process that runs it.

    judge ──► Candidate      a sandbox that holds the code: it gets calls and inputs, nothing else
          └─► Examination    a sandbox that holds test programs, and asks the first one by proxy

What is expected never enters the candidate's sandbox, and what comes out of it is read as a plain
value, so there is nothing in there that forging could gain.
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
