"""Seeing what happened: trajectories and events on disk, a console, a summary."""

from agentfly.observe.console import ConsolePrinter
from agentfly.observe.events import EventLog, LoggedEvent, read_events
from agentfly.observe.record import decode_trajectory, encode_trajectory, require_json
from agentfly.observe.store import TrajectoryWriter, compact, read_trajectories
from agentfly.observe.summary import Summary, summarize

__all__ = [
    "ConsolePrinter",
    "EventLog",
    "LoggedEvent",
    "Summary",
    "TrajectoryWriter",
    "compact",
    "decode_trajectory",
    "encode_trajectory",
    "read_events",
    "read_trajectories",
    "require_json",
    "summarize",
]
