"""Names that users may rely on."""

import importlib

PUBLIC = [
    "agentfly",
    "agentfly.agents",
    "agentfly.algorithms",
    "agentfly.chat",
    "agentfly.chat.formats",
    "agentfly.config",
    "agentfly.engines",
    "agentfly.engines.local",
    "agentfly.environments",
    "agentfly.errors",
    "agentfly.models",
    "agentfly.observe",
    "agentfly.resources",
    "agentfly.rewards",
    "agentfly.rollout",
    "agentfly.sandbox",
    "agentfly.tasks",
    "agentfly.testing",
    "agentfly.tools",
    "agentfly.training",
    "agentfly.types",
]
"""Packages whose names are documented, and whose signatures are kept in a snapshot."""


def exported(module_name: str) -> dict[str, object]:
    """Return the public names of a package with what they stand for."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module_name]
    return {name: getattr(module, name) for name in names if not name.startswith("_")}
