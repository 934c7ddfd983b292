"""Benchmarks of all built-in environments; each has its own file in this folder."""

from benchmarks import alfworld, browser, scienceworld, search, webshop
from benchmarks.report import report

MEASURED = (webshop, search, alfworld, scienceworld, browser)

if __name__ == "__main__":
    numbers = {key: value for each in MEASURED for key, value in each.measure().items()}
    aims = {key: aim for each in MEASURED for key, aim in each.AIMS.items()}
    report("envs", numbers, aims=aims)
