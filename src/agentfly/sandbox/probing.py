"""Find the isolation that this machine offers, by making a sandbox."""

import shutil
from dataclasses import dataclass

from agentfly.sandbox.box import BoxFailedError, UnsupportedError
from agentfly.sandbox.inside.denied_calls import DENIED
from agentfly.sandbox.isolation import Isolation
from agentfly.sandbox.levels import NO_LANDLOCK, bubblewrap_refusal, warm_settings
from agentfly.sandbox.limits import SandboxLimits
from agentfly.sandbox.process_box import ProcessLauncher
from agentfly.sandbox.warm import Layers, WarmServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The isolation that was found."""

    isolation: Isolation | None
    """The level that sandboxes get by default; None if they are refused, or if it could
    not be found out: `missing` says which."""
    layers: tuple[str, ...] = ()
    """What is in force, for people: "Landlock 7"."""
    missing: tuple[str, ...] = ()
    """What better levels lack here, for people: "namespaces: unshare: Operation not permitted"."""
    engines: tuple[str, ...] = ()
    """Which of Docker and Podman are installed, to be had by choice."""


async def probe() -> Probe:
    """Make a sandbox of the best level that works here, and return what protects it.

    A lesser level is named only where the kernel refuses the better one: so do sandboxes choose.
    """
    engines = tuple(name for name in ("docker", "podman") if shutil.which(name))
    try:
        layers = await _try_warm_twice()
    except UnsupportedError as error:
        missing = [f"namespaces: {error}"]
    except BoxFailedError as error:
        unknown = f"namespaces: not refused, but they failed twice ({error}): is the machine busy?"
        return Probe(isolation=None, missing=(unknown,), engines=engines)
    else:
        return Probe(
            isolation=layers.isolation,
            layers=_names(layers),
            missing=() if layers.landlock else (f"Landlock: {NO_LANDLOCK}",),
            engines=engines,
        )
    try:
        await _try_bubblewrap()
        return Probe(isolation=Isolation.BUBBLEWRAP, missing=tuple(missing), engines=engines)
    except BoxFailedError as error:
        missing.append(f"bubblewrap: {error}")
    return Probe(isolation=None, missing=tuple(missing), engines=engines)


async def _try_warm_twice() -> Layers:
    """Try again what failed and was not refused: on a crowded machine it may have come too late."""
    try:
        return await _try_warm()
    except UnsupportedError:
        raise
    except BoxFailedError:
        return await _try_warm()


async def _try_warm() -> Layers:
    server = await WarmServer.start(warm_settings((), (), always=()))
    try:
        box = await server.spawn(SandboxLimits(), seed=0)
        await box.close()
    finally:
        await server.close()
    return server.layers


async def _try_bubblewrap() -> None:
    if (refusal := await bubblewrap_refusal()) is not None:
        raise BoxFailedError(refusal)
    launcher = ProcessLauncher(Isolation.BUBBLEWRAP, ())
    box = await launcher.spawn(SandboxLimits(), seed=0)
    await box.close()


def _names(layers: Layers) -> tuple[str, ...]:
    return (
        "user, mount, pid, network, ipc, uts and cgroup namespaces",
        f"Landlock {layers.landlock}" if layers.landlock else "no Landlock in this kernel",
        f"seccomp ({len(DENIED)} system calls denied)",
        "a uid for each sandbox" if layers.own_uids else "the uid of this user",
        "limits and a quota on the scratch folder",
        _counting(layers),
    )


def _counting(layers: Layers) -> str:
    """Name what bounds the memory of all processes of a sandbox together."""
    watch = "a watch" if layers.watched else "no watch, as /proc is masked"
    if layers.cgroup:
        return f"memory of all processes: a cgroup, and {watch}"
    return f"memory of all processes: {watch}; no cgroup ({layers.no_cgroup})"
