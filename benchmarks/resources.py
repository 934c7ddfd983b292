"""Sandboxes and leases in one run; see benchmarks/sandbox.py and benchmarks/leases.py."""

from benchmarks import sandbox
from benchmarks.leases import lease_rates
from benchmarks.report import report

if __name__ == "__main__":
    report("resources", sandbox.numbers() | lease_rates(), aims=sandbox.AIMS)
