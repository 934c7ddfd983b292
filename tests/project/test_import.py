"""`import agentfly` stays light."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

SERVERS = ("starlette", "uvicorn", "h11", "anyio")
HEAVY = (
    *("torch", "transformers", "numpy", "matplotlib", "tokenizers", "tomlkit", "mcp", "trl"),
    *("math_verify", "ray"),
    *SERVERS,
)


def heavy_after(code: str) -> str:
    code = f"import sys\n{code}\nprint([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return out.stdout.strip()


@pytest.mark.parametrize("code", ["import agentfly", "from agentfly import *"])
def test_importing_the_package_imports_nothing_heavy(code: str) -> None:
    assert heavy_after(code) == "[]"


def test_the_command_line_and_clients_of_servers_need_no_server() -> None:
    clients = "agentfly.resources.placement.http_instance, agentfly.environments.search"
    code = f"import agentfly.cli.main, {clients}"
    found = heavy_after(code)
    assert not [name for name in SERVERS if repr(name) in found], found


def test_the_watch_on_sys_modules_can_see_something() -> None:
    assert heavy_after("import numpy") == "['numpy']"


def test_child_processes_can_import_one_package_alone() -> None:
    code = "import sys, agentfly.runtime.process; print('pydantic' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert out.stdout.strip() == "False"


def test_only_the_cluster_imports_ray_and_only_functions_import_the_cluster() -> None:
    package = Path(__file__).parents[2] / "src" / "agentfly"
    files = [path for path in package.rglob("*.py") if package / "cluster" not in path.parents]
    assert len(files) > 100
    for path in files:
        source = path.read_text()
        assert not re.search(r"^\s*(import|from) ray\b", source, re.MULTILINE), path
        assert not re.search(r"^(import|from) agentfly\.cluster", source, re.MULTILINE), path


def test_the_tests_run_on_this_checkout() -> None:
    import agentfly

    assert Path(agentfly.__file__).is_relative_to(Path(__file__).parents[2] / "src")
