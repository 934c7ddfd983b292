"""Where a run's metrics go: always a plain file, and whatever tracker one likes to look at."""

from agentfly.observe.trackers.metrics_file import MetricsFile, MetricsRecord, read_metrics
from agentfly.observe.trackers.several import Trackers, open_trackers

__all__ = ["MetricsFile", "MetricsRecord", "Trackers", "open_trackers", "read_metrics"]
