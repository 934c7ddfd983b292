"""The first thing a fork server runs: `python -I boot.py '{"preload": [...], ...}'`.

It is started by its path, so that it works wherever the package is; its socket is stdin.
"""

import errno
import gc
import importlib
import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

PASSING = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
"""Errors of a crowded machine; any other refusal of a system call is permanent."""


def main(settings: dict[str, Any]) -> None:
    """Prepare, report that, and serve; or report what failed."""
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from agentfly.runtime.launch import TOKEN_VARIABLE
    from agentfly.sandbox.inside import (
        cgroup,
        confine,
        fork_server,
        kernel,
        landlock,
        open_files,
        rootfs,
    )

    sys.path.pop(0)
    os.environ.pop(TOKEN_VARIABLE, None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control, outer_pid = socket.socket(fileno=os.dup(0)), os.getpid()
    groups = _groups(cgroup)
    try:
        open_files.raise_limit()
        own_uids = _enter_namespaces(kernel)
        _continue_as_first_process(kernel)
        proc = rootfs.build(settings["readable"])
        unimportable = _preload(settings["preload"])
        confine.fork_workers()
        rootfs.seal()
        serving = fork_server.ForkServer(
            control,
            proc,
            outer_pid=outer_pid,
            own_uids=own_uids,
            groups=None if isinstance(groups, str) else groups,
        )
        serving.rehearse()
    except Exception as error:  # noqa: BLE001 - any error is sent to the owner
        if not isinstance(groups, str):
            groups.discard()
        refused = isinstance(error, OSError) and error.errno not in PASSING
        report = {"failed": _described(error), "refused": refused}
        control.send(json.dumps(report).encode())
        return
    layers = {
        "landlock": landlock.abi(),
        "own_uids": own_uids,
        "watched": proc.own,
        "cgroup": None if isinstance(groups, str) else str(groups.path),
        "no_cgroup": groups if isinstance(groups, str) else None,
    }
    control.send(json.dumps({"layers": layers, "unimportable": unimportable}).encode())
    # What is frozen is never walked by the collector, whose marks would unshare every page.
    gc.collect()
    gc.freeze()
    gc.disable()
    serving.serve()


def _groups(cgroup: Any) -> Any:
    """Return what makes a cgroup for each sandbox, or the reason why nothing can."""
    try:
        return cgroup.Groups.make()
    except cgroup.NoCgroupError as error:
        return str(error)


def _enter_namespaces(kernel: Any) -> bool:
    """Take mount and pid namespaces of our own; True if that worked as root, without a user's.

    Only then may each sandbox be given a uid of its own.
    """
    try:
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    except PermissionError:
        uid, gid = os.getuid(), os.getgid()
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            Path(f"/proc/self/{name}").write_text(text)
        return False
    return True


def _continue_as_first_process(kernel: Any) -> None:
    """Go on in a child, the first process of the new pid namespace; all below it end with it."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)


def _preload(names: list[str]) -> dict[str, str]:
    """Import packages once, for all sandboxes; return those that can't be, and why.

    >>> _preload(["json", "jsn"])
    {'jsn': "ModuleNotFoundError: No module named 'jsn'"}
    """
    unimportable = {}
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # noqa: BLE001 - a package may raise anything
            unimportable[name] = _described(error)
    return unimportable


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
