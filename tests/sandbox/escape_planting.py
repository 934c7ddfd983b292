"""What attempts to escape aim at: planted by the test, and looked at before and after."""

import contextlib
import os
import socket
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEPT_OPEN: list[socket.socket] = []


def plant(folder: Path, victim: int) -> dict[str, Any]:
    """Plant a secret, and describe it and the victim, a process, to the attempts."""
    secret = folder / "secret"
    secret.write_text("the planted secret")
    (folder / "neighbors-file").write_text("mine")
    return {
        "folder": str(folder),
        "secret": str(secret),
        "content": "the planted secret",
        "inode": secret.stat().st_ino,
        "pid": os.getpid(),
        "victim": victim,
        "hostname": socket.gethostname(),
        "packages": sysconfig.get_paths()["purelib"],
    }


def plant_shared(planted: dict[str, Any]) -> dict[str, Any]:
    """Add a folder that sandboxes may read, with a file and two sockets."""
    shared = Path(planted["folder"], "shared")
    shared.mkdir()
    (shared / "file").write_text("shared")
    listen(socket.AF_UNIX, str(shared / "socket"))
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(str(shared / "datagrams"))
    KEPT_OPEN.append(receiver)
    for name in ("socket", "datagrams"):
        (shared / name).chmod(0o777)
    paths = {f"shared_{name}": str(shared / name) for name in ("file", "socket", "datagrams")}
    return {**planted, "shared": str(shared), **paths}


def plant_services(planted: dict[str, Any]) -> dict[str, Any]:
    """Add listeners of three kinds and an inherited descriptor."""
    os.set_inheritable(os.open(planted["secret"], os.O_RDONLY), True)
    path, abstract = f"{planted['folder']}/socket", f"planted-{os.getpid()}"
    port = listen(socket.AF_INET, ("127.0.0.1", 0)).getsockname()[1]
    listen(socket.AF_UNIX, path)
    listen(socket.AF_UNIX, f"\0{abstract}")
    return {**planted, "port": port, "unix": path, "abstract": abstract}


def listen(family: int, address: Any) -> socket.socket:
    """Say hello to whoever connects."""
    listener = socket.socket(family)
    listener.bind(address)
    listener.listen(64)

    def greet() -> None:
        while True:
            link, _ = listener.accept()
            with contextlib.suppress(OSError), link:
                link.send(b"hello")

    threading.Thread(target=greet, daemon=True).start()
    return listener


def mounts() -> list[str]:
    """Return all mounts but those that other tests, which may run beside, make for themselves."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if "/pytest-of-" not in line.split()[4]]


@contextlib.contextmanager
def unchanged(planted: dict[str, Any], host: dict[str, bool]) -> Iterator[None]:
    """Note for each of these whether it is afterwards as it was before."""

    def look() -> dict[str, object]:
        return {
            "files": sorted(map(str, Path(planted["folder"]).rglob("*"))),
            "mounts": mounts(),
            "secret": Path(planted["secret"]).read_text(),
            "name": socket.gethostname(),
        }

    before = look()
    yield
    after = look()
    host.update({what: before[what] == after[what] for what in before})
