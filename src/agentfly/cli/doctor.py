"""`agentfly doctor`: what is wrong on this machine, each with its fix."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from agentfly.cli.wait_policy import given_by_user
from agentfly.models import cache_folder

State = Literal["ok", "missing", "wrong"]
_MARKS = {"ok": "✓", "missing": "–", "wrong": "✗"}
_COLOURS = {"ok": typer.colors.GREEN, "missing": typer.colors.YELLOW, "wrong": typer.colors.RED}

LITTLE_DISK_GB = 5.0
"""Less than this, and a model with its checkpoints may not fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    state: State
    detail: str
    fix: str = ""


def doctor() -> None:
    """Look at this machine and say what is missing or wrong, each with its fix."""
    findings = [finding for examine in _EXAMINATIONS for finding in examine()]
    for finding in findings:
        mark = typer.style(_MARKS[finding.state], fg=_COLOURS[finding.state])
        typer.echo(f"{mark} {finding.what:14} {finding.detail}")
        if finding.fix:
            typer.echo(f"  {'':14} fix: {finding.fix}")
    raise typer.Exit(1 if any(finding.state == "wrong" for finding in findings) else 0)


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", "ok", version)


def _threads() -> Iterator[Finding]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    detail = f"{cores} cores, {asked or 'no limit on'} threads for torch"
    if asked.isdigit() and int(asked) > (cores or 1):
        fix = f"export OMP_NUM_THREADS={cores}"
        yield Finding("threads", "wrong", f"{detail}: more than there are cores", fix)
    else:
        yield Finding("threads", "ok", detail)
    policy = (given_by_user or "").lower()
    if policy == "passive":
        yield Finding("wait policy", "ok", "passive")
    else:
        state: State = "wrong" if policy else "missing"
        detail = f"{policy or 'unset'} (set by this command line, not by your own programs)"
        fix = "export OMP_WAIT_POLICY=passive: busy waiting collapses torch beside other work"
        yield Finding("wait policy", state, detail, fix)


def _torch() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        yield Finding("torch", "missing", "not installed", "pip install 'agentfly[local]'")
        return
    import torch

    yield Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        yield Finding("cuda", "ok", torch.cuda.get_device_name())
    else:
        yield Finding("cuda", "missing", "no CUDA device: models run on the CPU")
    yield _bf16()


def _bf16() -> Finding:
    flags = _cpu_flags()
    native = sorted(flags & {"avx512_bf16", "amx_bf16", "bf16"})
    if native:
        return Finding("bf16", "ok", f"computed by the CPU ({', '.join(native)})")
    fix = "none needed on a GPU; on this CPU keep dtype at float32"
    return Finding("bf16", "missing", "not computed by this CPU: slower than float32", fix)


def _cpu_flags() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = (line for line in text.splitlines() if line.startswith(("flags", "Features")))
    return set(next(lines, ":").split(":", 1)[1].split())


_EXTRAS = {
    "local": ("torch", "transformers", "safetensors"),
    "tokenizers": ("tokenizers",),
    "math": ("math_verify",),
    "mcp": ("mcp",),
    "ray": ("ray",),
    "search": ("bm25s", "tantivy"),
    "alfworld": ("alfworld", "textworld"),
    "scienceworld": ("scienceworld",),
}


def _extras() -> Iterator[Finding]:
    for extra, modules in _EXTRAS.items():
        missing = [name for name in modules if importlib.util.find_spec(name) is None]
        if missing:
            fix = f"pip install 'agentfly[{extra}]'"
            yield Finding(f"extra {extra}", "missing", f"without {', '.join(missing)}", fix)
        else:
            yield Finding(f"extra {extra}", "ok", ", ".join(modules))


def _sandbox() -> Iterator[Finding]:
    if sys.platform != "linux":
        yield Finding("sandbox", "missing", f"no namespaces on {sys.platform}", "install Docker")
        return
    probe = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "true"]
    allowed = shutil.which("unshare") and subprocess.run(probe, capture_output=True, check=False)
    if allowed and allowed.returncode == 0:
        yield Finding("sandbox", "ok", "user, network and pid namespaces can be made")
    elif shutil.which("bwrap"):
        yield Finding("sandbox", "ok", "bubblewrap")
    else:
        fix = "allow unprivileged user namespaces, or install bubblewrap or Docker"
        yield Finding("sandbox", "missing", "no isolation for untrusted code", fix)


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
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    yield Finding("java", "ok", (shown.stderr or shown.stdout).splitlines()[0])


_EXAMINATIONS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _threads,
    _torch,
    _extras,
    _sandbox,
    _disk,
    _java,
)
