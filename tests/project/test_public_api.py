"""What users may rely on: names, docstrings, signatures."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest
from docs_build.public_names import PUBLIC, exported

SNAPSHOT = Path(__file__).with_name("public_api.json")


def signatures() -> dict[str, dict[str, str]]:
    return {
        module: {
            name: _signature(value) if callable(value) and _has_signature(value) else ""
            for name, value in sorted(exported(module).items())
        }
        for module in PUBLIC
    }


def _signature(value: object) -> str:
    # A function as a default value is printed with its address, which changes.
    return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(value)))  # type: ignore[arg-type]


def _has_signature(value: object) -> bool:
    try:
        inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.parametrize("module_name", PUBLIC)
def test_all_names_each_thing_once(module_name: str) -> None:
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", [])
    assert len(set(names)) == len(names)
    assert module.__doc__, f"{module_name} needs a docstring"


@pytest.mark.parametrize("module_name", PUBLIC)
def test_every_public_name_says_what_it_is(module_name: str) -> None:
    undocumented = [
        name
        for name, value in exported(module_name).items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not inspect.getdoc(value)
    ]
    assert not undocumented


@pytest.mark.parametrize("module_name", PUBLIC)
def test_every_public_method_says_what_it_does(module_name: str) -> None:
    undocumented = [
        f"{name}.{method}"
        for name, value in exported(module_name).items()
        if inspect.isclass(value) and value.__module__.startswith("agentfly")
        for method, member in vars(value).items()
        if not method.startswith("_") and inspect.isfunction(member) and not inspect.getdoc(member)
    ]
    assert not undocumented


def test_signatures_are_as_promised() -> None:
    """A change here is a change for users: `python -m tests.project.test_public_api` records it."""
    assert signatures() == json.loads(SNAPSHOT.read_text())


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(signatures(), indent=1) + "\n")
