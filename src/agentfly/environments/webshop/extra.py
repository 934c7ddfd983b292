"""The packages of the extra `webshop`, imported where they are used."""

import importlib
import importlib.util
from typing import Any

from agentfly.errors import ConfigError

PACKAGES = ("bm25s", "Stemmer", "rapidfuzz")
INSTALL = "pip install 'agentfly[webshop]'"


def missing_packages() -> str | None:
    """Say what is missing and how to get it; None if all is there."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    return f"WebShop needs {', '.join(missing)}: {INSTALL}" if missing else None


def import_extra(name: str) -> Any:
    """Import one of the packages."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"WebShop needs the package {name}: {INSTALL}") from error
