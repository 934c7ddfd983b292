"""`python -m agentfly.cli`."""

from agentfly.cli.main import app

app()
