"""Levels that start a process for each sandbox: bubblewrap, Docker or Podman, or nothing at all."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentfly.errors import ConfigError, DeadlineError
from agentfly.runtime.process import DEVNULL, PIPE, Child, start
from agentfly.sandbox.box import BoxFailedError, Channel, ChannelError, Ending, Isolation
from agentfly.sandbox.inside import open_files, rootfs
from agentfly.sandbox.interpreter import start as program
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.warm import (
    LIFETIME_SECONDS,
    SPAWN_SECONDS,
    environment,
    readable_folders,
)

PACKAGE = Path(program.__file__).parents[2]
IMAGE_VARIABLE = "AGENTFLY_SANDBOX_IMAGE"
"""Names the image for Docker and Podman; one with the packages that code shall find."""
DEFAULT_IMAGE = "python:3.12-slim"
REMOVE_SECONDS = 30.0
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The command and settings that start one sandbox."""

    command: tuple[str, ...]
    """All but the settings, which come last."""
    box: str
    """The scratch folder's parent, as code sees it."""
    confine: bool
    """Whether Landlock and seccomp are to be put in force within."""
    count_processes: bool
    variables: tuple[tuple[str, str], ...]
    interruptible: bool = False
    scratch: str | None = None
    """A folder of the host to delete in the end."""
    remove: tuple[str, ...] = ()
    """A command that ends what outlives the process."""


class ProcessLauncher:
    """Starts sandboxes of one of these levels."""

    def __init__(self, isolation: Isolation, readable: tuple[str, ...]) -> None:
        plans: dict[Isolation, Callable[[SandboxLimits], Plan]] = {
            Isolation.BUBBLEWRAP: lambda limits: bubblewrap(limits, readable),
            Isolation.DOCKER: lambda limits: container("docker", limits, readable),
            Isolation.PODMAN: lambda limits: container("podman", limits, readable),
            Isolation.UNSAFE: lambda limits: bare(),
        }
        self._plan = plans[isolation]

    async def spawn(self, limits: SandboxLimits, seed: int) -> "ProcessBox":
        """Start a sandbox and wait until it is ready."""
        plan = self._plan(limits)
        settings = {
            "limits": limits.to_dict(),
            "seed": seed,
            "box": plan.box,
            "confine": plan.confine,
            "count_processes": plan.count_processes,
        }
        box = ProcessBox(plan, await _start(plan, json.dumps(settings)))
        try:
            async with asyncio.timeout(SPAWN_SECONDS):
                await box.channel.greeting()
        except BaseException as error:
            await box.close()
            if isinstance(error, TimeoutError):
                text = f"{plan.command[0]} gave no sandbox within {SPAWN_SECONDS:g} s"
                raise BoxFailedError(text) from error
            if isinstance(error, ChannelError):
                text = f"{plan.command[0]} ended before the sandbox was ready ({error})"
                raise BoxFailedError(f"{text}: check that this program works here") from error
            raise
        return box


class ProcessBox:
    """A sandbox that is a child process."""

    def __init__(self, plan: Plan, child: Child) -> None:
        assert child.stdout is not None, "asked for by PIPE"
        assert child.stdin is not None, "asked for by PIPE"
        self._plan = plan
        self._child = child
        self._end_of_life = time.monotonic() + LIFETIME_SECONDS
        self.channel = Channel(child.stdout, child.stdin)

    async def interrupt(self) -> None:
        """Send SIGINT where it reaches the interpreter; elsewhere the kill comes next."""
        if self._plan.interruptible and self._child.returncode is None:
            self.channel.interrupt(self.channel.number)
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, signal.SIGINT)

    async def end(self) -> Ending:
        """Kill it and return how it ended: by its own exit code, if it had ended before."""
        expired = time.monotonic() >= self._end_of_life
        await self.close()
        if expired:
            raise BoxFailedError(f"it was killed after {LIFETIME_SECONDS:g} s, its lifetime")
        return Ending(code=self._child.returncode)

    async def close(self) -> None:
        """Kill it, and delete what it leaves behind."""
        self.channel.close()
        await self._child.close(grace=0)
        if self._plan.remove:
            await _remove(self._plan.remove)
        if self._plan.scratch:
            shutil.rmtree(self._plan.scratch, ignore_errors=True)


def _program(name: str) -> str:
    """Return a program's path: the process that starts it has no PATH of its own."""
    path = shutil.which(name)
    if path is None:
        raise BoxFailedError(
            f"there is no `{name}` on the PATH: install it, or choose another isolation"
        )
    return path


def bubblewrap(limits: SandboxLimits, readable: tuple[str, ...]) -> Plan:
    """Plan a sandbox of `bwrap`, with the same view of the files as the warm one."""
    arguments = [_program("bwrap"), "--unshare-all", "--die-with-parent"]
    arguments += ["--new-session", "--as-pid-1"]
    arguments += ["--clearenv", "--uid", "1000", "--gid", "1000", "--hostname", "sandbox"]
    arguments += ["--cap-drop", "ALL"]
    shown = (*_SYSTEM, *readable_folders(), *readable, str(PACKAGE))
    for path in shown:
        arguments += ["--ro-bind-try", path, path]
    for name in rootfs.devices_shown():
        arguments += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    arguments += ["--size", str(limits.disk_mb << 20), "--tmpfs", rootfs.BOX]
    # What is shown below /tmp, such as this package, makes it a folder: TMPDIR leads past it.
    if not any(Path(path).is_relative_to("/tmp") for path in shown):
        arguments += ["--symlink", f"{rootfs.BOX}/tmp", "/tmp"]
    arguments += ["--symlink", f"{rootfs.BOX}/shm", "/dev/shm"]
    for name, value in environment().items():
        arguments += ["--setenv", name, value]
    return Plan(
        command=(*arguments, sys.executable, "-I", program.__file__),
        box=rootfs.BOX,
        confine=True,
        count_processes=True,
        variables=(),
    )


def container(engine: str, limits: SandboxLimits, readable: tuple[str, ...]) -> Plan:
    """Plan a sandbox in a container without network, rights or a writable image."""
    name = f"agentfly-{uuid.uuid4().hex}"
    memory = f"{limits.memory_mb + (program.ADDRESS_SPACE >> 20)}m"
    program_path = _program(engine)
    arguments = [program_path, "run", "--rm", "--interactive", "--name", name]
    arguments += ["--network", "none"]
    arguments += ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    arguments += ["--user", "1000:1000", "--hostname", "sandbox", "--ulimit", "core=0"]
    arguments += ["--memory", memory, "--memory-swap", memory]
    arguments += ["--pids-limit", str(limits.processes)]
    quota = f"rw,exec,mode=1777,size={limits.disk_mb}m,nr_inodes={limits.files}"
    arguments += ["--tmpfs", f"{rootfs.BOX}:{quota}"]
    for path in (*readable, str(PACKAGE)):
        arguments += ["--volume", f"{path}:{path}:ro"]
    for variable, value in environment().items():
        if variable != "PATH":  # The image has its own, with its own Python.
            arguments += ["--env", f"{variable}={value}"]
    image = os.environ.get(IMAGE_VARIABLE, DEFAULT_IMAGE)
    return Plan(
        command=(*arguments, image, "python", "-I", program.__file__),
        box=rootfs.BOX,
        confine=False,  # The engine brings a seccomp filter of its own.
        count_processes=False,
        variables=tuple(os.environ.items()),
        remove=(program_path, "rm", "--force", name),
    )


def bare() -> Plan:
    """Plan an interpreter without any isolation, in a folder of its own."""
    scratch = tempfile.mkdtemp(prefix="agentfly-unsafe-")
    variables = {name: value.replace(rootfs.BOX, scratch) for name, value in environment().items()}
    return Plan(
        command=(sys.executable, "-I", program.__file__),
        box=scratch,
        confine=False,
        count_processes=False,
        variables=tuple(variables.items()),
        interruptible=True,
        scratch=scratch,
    )


async def _start(plan: Plan, settings: str) -> Child:
    try:
        return await start(
            [*plan.command, settings],
            name=f"a sandbox of {Path(plan.command[0]).name}",
            lifetime=LIFETIME_SECONDS,
            env=dict(plan.variables),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
        )
    except (ConfigError, DeadlineError, OSError) as error:
        if plan.scratch:
            shutil.rmtree(plan.scratch, ignore_errors=True)
        raise BoxFailedError(open_files.explain(error) or str(error)) from error


async def _remove(command: tuple[str, ...]) -> None:
    child = await start(
        command, name="removing a container", lifetime=60.0, stdout=DEVNULL, stderr=DEVNULL
    )
    async with child:
        with suppress(TimeoutError):
            async with asyncio.timeout(REMOVE_SECONDS):
                await child.wait()
