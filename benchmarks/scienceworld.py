"""Speed of eight concurrent environments in one JVM, and its memory.

Each plays gold paths from start to end, one episode after another, loads included; steps that only
look count too. The first episodes, in which the JVM compiles its code, don't count. Without Java or
the simulator there are no numbers.

    python -m benchmarks.scienceworld
"""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agentfly.environments.scienceworld import ScienceWorld
from agentfly.environments.scienceworld.players import gold_path
from agentfly.environments.scienceworld.simulator import java
from agentfly.environments.scienceworld.simulator.jvm_pool import jvm_pool
from agentfly.types import Seed, Task

TASKS = ("find-plant", "find-living-thing", "lifespan-longest-lived", "use-thermometer")
ENVIRONMENTS, WARM_UP, EPISODES = 8, 2, 4
AIMS = {"scienceworld_steps_per_s": "140, with none wrong"}


def measure() -> dict[str, float]:
    """Return steps per second of eight environments together, and their JVM's megabytes."""
    missing = java.missing_requirements()
    if missing is not None:
        print(f"scienceworld_steps_per_s is left out: {missing}")
        return {}
    paths = {name: gold_path(name, 0, "easy") for name in TASKS}
    environments = [ScienceWorld() for _ in range(ENVIRONMENTS)]
    try:
        _steps_per_second(environments, paths, WARM_UP)
        rate = _steps_per_second(environments, paths, EPISODES)
        megabytes = sum(_resident_megabytes(jvm.pid) for jvm in jvm_pool().jvms)
    finally:
        for one in environments:
            one.close()
        jvm_pool().close()
    return {"scienceworld_steps_per_s": rate, "scienceworld_8_live_mb": megabytes}


def _steps_per_second(
    environments: list[ScienceWorld], paths: dict[str, list[str]], episodes: int
) -> float:
    def play(number: int) -> int:
        names = [TASKS[(number + episode) % len(TASKS)] for episode in range(episodes)]
        return sum(_episode(environments[number], name, paths[name]) for name in names)

    started = time.perf_counter()
    with ThreadPoolExecutor(len(environments)) as threads:
        steps = sum(threads.map(play, range(len(environments))))
    return steps / (time.perf_counter() - started)


def _episode(environment: ScienceWorld, name: str, path: list[str]) -> int:
    row = {"id": name, "task": name, "variation": 0, "simplifications": "easy"}
    environment.reset(Task.from_row(row), Seed(0))
    for action in path:
        environment.step(action)
    if environment.score != 100:
        raise RuntimeError(f"a gold path of {name} scored {environment.score}, expected 100")
    return len(path)


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (resident,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(resident.split()[1]) / 1024


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"  {name:32} {value:10.4g}")
