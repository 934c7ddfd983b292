"""Run tests against faulty copies of the code, one after another, in forks of one warm process.

python mutants.py MUTATIONS.json SOURCE
"""

import importlib
import json
import os
import sys
from pathlib import Path

import pytest

SLOW_IMPORTS = ["numpy", "pydantic.main", "sympy", "torch.testing"]
"""Imported once, before the forks. No tensor is touched there: threads do not survive a fork."""

FLAGS = [
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-p",
    "pytest_asyncio.plugin",
    "-p",
    "pytest_timeout",
]
"""Only the plug-ins that the project's settings speak of: the others take longer than the tests."""


def run_tests(source: Path, tests: list[str]) -> int:
    child = os.fork()
    if child == 0:
        sys.stdout = sys.stderr
        os._exit(pytest.main([*FLAGS, "-o", f"pythonpath=. {source}", *tests]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_mutant(source: Path, mutation: dict[str, str]) -> int:
    path = source / "agentfly" / "algorithms" / mutation["file"]
    sound = path.read_text()
    assert sound.count(mutation["old"]) == 1, f"{mutation['fault']} no longer fits the code"
    path.write_text(sound.replace(mutation["old"], mutation["new"]))
    os.utime(path, (0, 0))  # or else bytecode of the sound file might pass for its own
    try:
        return run_tests(source, [mutation["test"]])
    finally:
        path.write_text(sound)


def main() -> None:
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    for name in SLOW_IMPORTS:
        importlib.import_module(name)
    mutations, source = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    codes = {"none": run_tests(source, sorted({mutation["test"] for mutation in mutations}))}
    sys.dont_write_bytecode = True
    for mutation in mutations:
        codes[mutation["fault"]] = run_mutant(source, mutation)
    print(json.dumps(codes))


if __name__ == "__main__":
    main()
