"""Running untrusted code: `PythonSandbox`, its limits, its results and what isolates it.

Names are imported when they are first used, so that what runs inside loads none of the outside.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentfly.sandbox.box import Isolation as Isolation
    from agentfly.sandbox.cell_result import CellResult as CellResult
    from agentfly.sandbox.cell_result import CellStatus as CellStatus
    from agentfly.sandbox.levels import Probe as Probe
    from agentfly.sandbox.levels import probe as probe
    from agentfly.sandbox.limits import SandboxLimits as SandboxLimits
    from agentfly.sandbox.python import PythonSandbox as PythonSandbox

_MODULES = {
    "CellResult": "cell_result",
    "CellStatus": "cell_result",
    "Isolation": "box",
    "Probe": "levels",
    "PythonSandbox": "python",
    "SandboxLimits": "limits",
    "probe": "levels",
}

__all__ = ["CellResult", "CellStatus", "Isolation", "Probe", "PythonSandbox", "SandboxLimits"]
__all__ += ["probe"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'agentfly.sandbox' has no attribute {name!r}")
    return getattr(import_module(f"agentfly.sandbox.{_MODULES[name]}"), name)
