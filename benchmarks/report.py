"""Results of a benchmark: a table for people, and a flat JSON file next to it."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def report(name: str, numbers: Mapping[str, float], *, aims: Mapping[str, str]) -> None:
    """Print each number next to its aim, and write `results/<name>.json`."""
    width = max(map(len, numbers))
    for key, value in numbers.items():
        aim = f"   aim: {aims[key]}" if key in aims else ""
        print(f"  {key:{width}}  {value:>10.4g}{aim}")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**numbers, **circumstances()}, indent=2) + "\n")
    print(f"written to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")


def circumstances() -> dict[str, str | int]:
    """Return the commit, the date and the machine of a measurement."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count() or 0,
        "machine": platform.machine(),
        "python": platform.python_version(),
    }
