"""The watch over all memory of a sandbox must outlive every process that it looks at."""

import os
import subprocess
import sys

import pytest

from agentfly.sandbox.inside import memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def test_a_process_that_ends_while_it_is_looked_at_holds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proc = os.open("/proc", os.O_RDONLY)
    watch = memory.MemoryWatch(proc)
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    real_open, ended = os.open, []

    def open_then_end(*arguments: object, **options: object) -> int:
        descriptor = real_open(*arguments, **options)  # type: ignore[arg-type]
        victim.kill()
        victim.communicate()
        ended.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", open_then_end)
    assert watch._own(str(victim.pid)) == 0
    monkeypatch.undo()
    os.close(proc)
    assert ended, "the process was still there when its state was opened"
