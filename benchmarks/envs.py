"""The ready-made environments in one run; see benchmarks/webshop.py and benchmarks/search.py."""

from benchmarks import search, webshop
from benchmarks.report import report

if __name__ == "__main__":
    report("envs", webshop.measure() | search.measure(), aims=webshop.AIMS | search.AIMS)
