"""Program that compares mathematical answers in its own process; never imported.

A short answer such as `9^{9^9}` can make SymPy compute forever or fill the memory, and while it
multiplies integers no other thread of its process runs. So it computes here, under limits that the
kernel enforces: SIGXCPU ends this process at the limit of computing time.

Input is one JSON line, `{"gold": "1/2", "answer": "0.5", "cpu_seconds": 5}`; output are two lines:
whether the gold answer could be read, `true`, and then whether the answer equals it, `true`.
"""

import json
import logging
import math
import sys

from math_verify import parse, verify

MEMORY_BYTES = 2 << 30
"""Memory limit; more than SymPy needs for any real answer."""


def main() -> None:
    """Answer requests until the input ends, also because the parent died."""
    logging.disable(logging.CRITICAL)
    _limit_memory()
    for line in sys.stdin:
        request = json.loads(line)
        _limit_time(request["cpu_seconds"])
        gold = parse(_as_latex(request["gold"]), parsing_timeout=None)
        _say(answer=bool(gold))
        if gold:
            answer = parse(request["answer"], parsing_timeout=None)
            _say(answer=bool(verify(gold, answer, timeout_seconds=None)))


def _as_latex(gold: str) -> str:
    r"""Mark a bare expression as mathematics, or only its plain numbers would be found.

    >>> _as_latex(r"3\pi"), _as_latex("The answer is $5$.")
    ('$3\\pi$', 'The answer is $5$.')
    """
    is_marked = any(mark in gold for mark in ("$", r"\boxed", r"\(", r"\["))
    return gold if is_marked else f"${gold.strip()}$"


def _say(*, answer: bool) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _limit_memory() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_time(seconds: float) -> None:
    """Limit computing time from now; the kernel counts from the start of the process."""
    if sys.platform != "win32":
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = math.ceil(used.ru_utime + used.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
