"""Packages that come with an extra, imported where they are used."""

import importlib
from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType

from agentfly.errors import ConfigError


def import_extra(package: str, *, extra: str, purpose: str) -> ModuleType:
    """Import a package; raise ConfigError with the command that installs it.

    >>> import_extra("numpy", extra="search", purpose="Dense retrieval").__name__
    'numpy'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(_install_hint([package.partition(".")[0]], extra, purpose)) from error


def missing_packages(packages: Iterable[str], *, extra: str, purpose: str) -> str | None:
    """Return which packages are missing and how to install them; None if all are there.

    >>> missing_packages(["json", "bm26", "bm27"], extra="webshop", purpose="WebShop")
    "WebShop needs the packages bm26, bm27: pip install 'agentfly[webshop]'"
    """
    missing = [name for name in packages if find_spec(name) is None]
    return _install_hint(missing, extra, purpose) if missing else None


def _install_hint(packages: list[str], extra: str, purpose: str) -> str:
    plural = "s" if len(packages) > 1 else ""
    names = ", ".join(packages)
    return f"{purpose} needs the package{plural} {names}: pip install 'agentfly[{extra}]'"
