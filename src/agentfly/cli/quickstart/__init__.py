"""The quick start: a real language model learns to use a calculator, on any machine, in minutes."""

from agentfly.cli.quickstart.run import quickstart

__all__ = ["quickstart"]
