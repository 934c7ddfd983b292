"""What holds for all tests."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from tests.warm_python import WarmPython, started

# A shell starts what runs in its background deaf to Ctrl-C, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start many interpreters, and none of them should compile the package again.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False

# One thread computes a tiny model faster than two threads that wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A machine may be slow because of its other work: that is no fault of the code under test.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same code gives the same verdict each time; `make test-random` looks for new examples.
settings.register_profile("repeatable", settings.get_profile("random"), derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmPython]:
    """An interpreter that has imported torch, and forks a process for each program."""
    with started(tmp_path_factory.mktemp("warm_python")) as python:
        yield python


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from all that is imported, which takes it seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


LONG_PACKAGES = ("training", "environments", "cli", "sandbox", "chat", "project")
"""Packages whose tests take longest, in this order."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what may take longest: started last, it would keep the other worker waiting."""
    items.sort(key=_place_in_order)


def _place_in_order(item: pytest.Item) -> tuple[float, int]:
    own = item.get_closest_marker("timeout")
    allowed = float(own.args[0]) if own else 0.0
    package = item.nodeid.removeprefix("tests/").partition("/")[0]
    known = package in LONG_PACKAGES
    return -allowed, LONG_PACKAGES.index(package) if known else len(LONG_PACKAGES)
