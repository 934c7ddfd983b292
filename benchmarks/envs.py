"""Benchmarks of the built-in environments; each has its own file in this folder.

python -m benchmarks.envs              # all of them
python -m benchmarks.envs browser      # one, beside the recorded numbers of the others
"""

import argparse
import json

from benchmarks import alfworld, browser, scienceworld, search, webshop
from benchmarks.report import RESULTS, circumstances, report

MEASURED = {
    "webshop": webshop,
    "search": search,
    "alfworld": alfworld,
    "scienceworld": scienceworld,
    "browser": browser,
}


def measure_one(name: str) -> None:
    """Measure one environment again; its numbers get a commit and a date of their own."""
    file = RESULTS / "envs.json"
    numbers = MEASURED[name].measure()
    when = {f"{name}_{key}": circumstances()[key] for key in ("commit", "date")}
    for key, value in numbers.items():
        print(f"  {key:24}  {value:>10.4g}")
    file.write_text(
        json.dumps({**json.loads(file.read_text()), **numbers, **when}, indent=2) + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", choices=MEASURED, help="by default all of them")
    if name := parser.parse_args().name:
        measure_one(name)
        return
    numbers = {key: value for each in MEASURED.values() for key, value in each.measure().items()}
    aims = {key: aim for each in MEASURED.values() for key, aim in each.AIMS.items()}
    report("envs", numbers, aims=aims)


if __name__ == "__main__":
    main()
