"""Packages that only some kinds of search need, imported where they are used."""

import importlib
from types import ModuleType

from agentfly.errors import ConfigError

EXTRAS = {
    "numpy": "search",
    "tantivy": "search",
    "sentence_transformers": "dense",
    "pyarrow.parquet": "parquet",
}
"""Which extra brings which package."""


def import_extra(package: str, purpose: str) -> ModuleType:
    """Import a package, or say how to get it.

    >>> import_extra("numpy", "dense retrieval").__name__
    'numpy'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ConfigError(
            f"{purpose} needs the package {package.partition('.')[0]}: "
            f"pip install 'agentfly[{EXTRAS[package]}]'"
        ) from error
