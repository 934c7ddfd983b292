"""`agentfly doctor`: report what is missing or wrong on this machine, each with its fix."""

import asyncio
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from agentfly.cli.command import cli_errors
from agentfly.cli.openmp import NUM_THREADS, WAIT_POLICY, given_by_user
from agentfly.environments.chromium_path import INSTALL, VARIABLE, find_chromium
from agentfly.models import cache_folder
from agentfly.resources import ask
from agentfly.runtime.cores import affine_cores, usable_cores
from agentfly.sandbox import probe
from agentfly.sandbox.levels import ALLOW_NAMESPACES, BOOT_LANDLOCK

State = Literal["ok", "missing", "wrong"]
_MARKS = {"ok": "✓", "missing": "–", "wrong": "✗"}
_COLORS = {"ok": typer.colors.GREEN, "missing": typer.colors.YELLOW, "wrong": typer.colors.RED}

LITTLE_DISK_GB = 5.0
"""Free disk space in GB below which a model with its checkpoints may not fit."""
PROBE_SECONDS = 20.0
"""Time after which a program that has not answered counts as broken."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    what: str
    state: State
    detail: str
    fix: str = ""


def doctor(
    live: Annotated[
        Path | None,
        typer.Option(
            "--live",
            help="The folder of a run: show which chains hold or wait for environments now.",
        ),
    ] = None,
) -> None:
    """Check this machine and report what is missing or wrong, each with its fix."""
    if live is not None:
        with cli_errors():
            typer.echo(ask(live).text)
        return
    wrong = False
    for check in _CHECKS:
        for finding in check():
            _print(finding)
            wrong = wrong or finding.state == "wrong"
    raise typer.Exit(1 if wrong else 0)


def _print(finding: Finding) -> None:
    """Print a finding at once: some checks take seconds."""
    mark = typer.style(_MARKS[finding.state], fg=_COLORS[finding.state])
    typer.echo(f"{mark} {finding.what:14} {finding.detail}")
    if finding.fix:
        typer.echo(f"  {'':14} fix: {finding.fix}")


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", version)


def _platform() -> Iterator[Finding]:
    kind = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() == "Linux":
        yield Finding("platform", "ok", kind)
        return
    detail = f"{kind}: nothing has been tested here, and untrusted code has no sandbox"
    yield Finding("platform", "missing", detail, "use Linux, or Docker for the sandbox")


def _threads() -> Iterator[Finding]:
    cores, visible = usable_cores(), affine_cores()
    asked = given_by_user[NUM_THREADS]
    limit = "" if cores == visible else f" (of {visible}, by this container's quota)"
    detail = f"{cores} cores{limit}, {asked or 'no limit on'} threads for torch"
    fix = f"export OMP_NUM_THREADS={cores}"
    if asked.isdigit() and int(asked) > cores:
        yield Finding("threads", "wrong", f"{detail}: more than there are cores", fix)
    elif limit and not asked:
        yield Finding("threads", "missing", f"{detail} (set by this command line only)", fix)
    else:
        yield Finding("threads", "ok", detail)


def _wait_policy() -> Iterator[Finding]:
    policy = given_by_user[WAIT_POLICY].lower()
    if policy == "passive":
        yield Finding("wait policy", "ok", "passive")
        return
    state: State = "wrong" if policy else "missing"
    detail = f"{policy or 'unset'} (set by this command line, not by your own programs)"
    fix = "export OMP_WAIT_POLICY=passive: busy waiting collapses torch next to other work"
    yield Finding("wait policy", state, detail, fix)


_INSTALL_LOCAL = "pip install 'agentfly[local]'"


def _torch() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", _INSTALL_LOCAL)
        return
    import torch

    yield Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        yield Finding("cuda", "ok", torch.cuda.get_device_name())
    else:
        yield Finding("cuda", "missing", "no CUDA device: models run on the CPU")
    yield _bf16()


def _bf16() -> Finding:
    try:
        import torch

        from agentfly.modeling.shared_view import bfloat16_pays
    except ImportError as error:
        return Finding("bf16", "missing", f"unknown without {error.name}", _INSTALL_LOCAL)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if bfloat16_pays(device):
        return Finding("bf16", "ok", f"computed by the {device.type} device")
    detail = f"not computed by the {device.type} device: slower than float32"
    return Finding("bf16", "missing", detail, "none needed: models are loaded in float32 here")


_REQUIREMENT = re.compile(r"""([\w.-]+).*;.*\bextra == ['"](.+?)['"]""")
"""Matches a requirement such as "torch>=2.6; extra == 'local'"."""
_FOR_DEVELOPERS = ("dev", "docs")


def _extras() -> Iterator[Finding]:
    for extra, packages in sorted(_packages_of_extras().items()):
        missing = [name for name in packages if not _is_installed(name)]
        if missing:
            fix = f"pip install 'agentfly[{extra}]'"
            yield Finding(f"extra {extra}", "missing", f"without {', '.join(missing)}", fix)
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(packages))


def _packages_of_extras() -> dict[str, list[str]]:
    """Return the required packages of each extra of the installed package."""
    extras: dict[str, list[str]] = {}
    for requirement in importlib.metadata.requires("agentfly") or ():
        found = _REQUIREMENT.match(requirement)
        if found and found[2] not in _FOR_DEVELOPERS:
            extras.setdefault(found[2], []).append(found[1])
    return extras


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _sandbox() -> Iterator[Finding]:
    found = asyncio.run(probe())
    engines = f"; by choice {' and '.join(found.engines)}" if found.engines else ""
    if found.isolation is None:
        detail = f"no isolation for untrusted code ({'; '.join(found.missing)}){engines}"
        fix = f"{ALLOW_NAMESPACES}, or install bubblewrap or Docker; if the machine was busy, retry"
        yield Finding("sandbox", "missing", detail, fix)
        return
    layers = f": {', '.join(found.layers)}" if found.layers else ""
    detail = f"{found.isolation}{layers}{engines}"
    if found.missing:
        fix = BOOT_LANDLOCK if found.layers else ALLOW_NAMESPACES
        weaker = f"weaker than warm: {'; '.join(found.missing)}"
        yield Finding("sandbox", "missing", f"{detail} ({weaker})", fix)
    else:
        yield Finding("sandbox", "ok", detail)


def _disk() -> Iterator[Finding]:
    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free / 1e9
    detail = f"{free:.0f} GB free for {folder}"
    if free < LITTLE_DISK_GB:
        fix = "free some space, or point AGENTFLY_CACHE at another disk"
        yield Finding("disk", "wrong", detail, fix)
    else:
        yield Finding("disk", "ok", detail)


def _java() -> Iterator[Finding]:
    java = shutil.which("java")
    if java is None:
        fix = "install a Java runtime, 8 or newer (Debian: apt install default-jre-headless)"
        yield Finding("java", "missing", "needed by ScienceWorld only", fix)
        return
    said = _output_of([java, "-version"])
    if said:
        yield Finding("java", "ok", said.splitlines()[0])
    else:
        fix = f"run `{java} -version` to see why, and install a runtime that works"
        yield Finding("java", "missing", f"{java} does not print its version", fix)


def _chromium() -> Iterator[Finding]:
    found = find_chromium()
    if found is not None:
        yield Finding("chromium", "ok", str(found))
    elif chosen := os.environ.get(VARIABLE):
        detail = f"needed by the browser only, and {VARIABLE} names {chosen!r}, no program"
        yield Finding(
            "chromium", "missing", detail, f"name one that can be run, or unset {VARIABLE}"
        )
    else:
        yield Finding("chromium", "missing", "needed by the browser only", INSTALL)


def _output_of(command: list[str]) -> str | None:
    """Return a program's output; None if it is missing, fails or does not end."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PROBE_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stderr or done.stdout


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _platform,
    _threads,
    _wait_policy,
    _torch,
    _extras,
    _sandbox,
    _disk,
    _java,
    _chromium,
)
