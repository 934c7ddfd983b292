"""Records of a run: files, metrics, trackers, console output, plots and reports."""

from agentfly.observe.console import ConsolePrinter
from agentfly.observe.estimate import (
    Interval,
    mean,
    mean_interval,
    pass_at_k,
    wilson_interval,
)
from agentfly.observe.evaluation_metrics import Counting, evaluation_metrics
from agentfly.observe.events import EventLog, LoggedEvent, read_events
from agentfly.observe.log_file import log_to
from agentfly.observe.metrics import METRICS, metrics_page, require_documented
from agentfly.observe.plot import plot_curves
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.observe.report_page import show_report, write_report
from agentfly.observe.rollout_metrics import rollout_metrics
from agentfly.observe.run_progress import RunProgress, evaluation_line, step_line
from agentfly.observe.run_report import Report, read_report
from agentfly.observe.summary import Summary, summarize
from agentfly.observe.trackers import (
    MetricsFile,
    MetricsRecord,
    Trackers,
    open_trackers,
    read_metrics,
)
from agentfly.observe.trajectory_file import (
    TrajectoryWriter,
    compact,
    decode_trajectory,
    encode_trajectory,
    read_trajectories,
    require_json,
)

__all__ = [
    "METRICS",
    "ConsolePrinter",
    "Counting",
    "EventLog",
    "Interval",
    "LoggedEvent",
    "MetricsFile",
    "MetricsRecord",
    "RecordedRun",
    "Report",
    "RunProgress",
    "Summary",
    "Trackers",
    "TrajectoryWriter",
    "compact",
    "decode_trajectory",
    "encode_trajectory",
    "evaluation_line",
    "evaluation_metrics",
    "find_run",
    "log_to",
    "mean",
    "mean_interval",
    "metrics_page",
    "open_trackers",
    "pass_at_k",
    "plot_curves",
    "read_events",
    "read_metrics",
    "read_report",
    "read_trajectories",
    "require_documented",
    "require_json",
    "rollout_metrics",
    "show_report",
    "step_line",
    "summarize",
    "wilson_interval",
    "write_report",
]
