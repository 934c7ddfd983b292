"""On other systems than Linux, what can't work is refused with the way out.

No such system is at hand: these tests change the name of this one.
"""

import platform
import shutil
import subprocess
import sys

import pytest
from tests.patience import PATIENCE

from agentfly.cli import doctor
from agentfly.errors import ConfigError
from agentfly.sandbox import PythonSandbox


def test_windows_is_refused_at_the_import() -> None:
    program = "import sys; sys.platform = 'win32'; import agentfly"
    run = subprocess.run(
        [sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 1
    assert "AgentFly does not run on Windows" in run.stderr
    assert "WSL 2" in run.stderr


async def test_a_sandbox_on_macos_names_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    sandbox = PythonSandbox()
    try:
        with pytest.raises(ConfigError) as refused:
            await sandbox.run("1 + 1")
    finally:
        await sandbox.close()
    for part in ("sandboxes need Linux, got darwin", "isolation='docker'", "unsafe=True"):
        assert part in str(refused.value)


def test_the_doctor_names_an_untested_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    (linux,) = doctor._platform()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    (other,) = doctor._platform()
    assert (linux.state, other.state) == ("ok", "missing")
    assert "nothing has been tested here" in other.detail
