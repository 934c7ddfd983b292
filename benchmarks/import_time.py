"""Duration of `import agentfly`, compared with the start of Python itself.

Run with `make bench-import`.
"""

import statistics
import subprocess
import sys
import time

from benchmarks.report import report

RUNS = 11


def seconds(code: str) -> float:
    """Return the median wall time of a fresh interpreter that runs this code."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    bare, ours = seconds("pass"), seconds("import agentfly")
    pydantic = seconds("import pydantic.main")
    report(
        "import",
        {
            "python_ms": 1000 * bare,
            "import_agentfly_ms": 1000 * (ours - bare),
            "import_pydantic_ms": 1000 * (pydantic - bare),
        },
        aims={},
    )


if __name__ == "__main__":
    main()
