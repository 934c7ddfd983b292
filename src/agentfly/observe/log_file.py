"""Log messages and warnings of a run in a file, so that the terminal stays readable.

2026-11-07 13:05:02 WARNING transformers.modeling_utils: …
2026-11-07 13:05:09 INFO agentfly.training.checkpoint: …
2026-11-07 13:05:11 WARNING py.warnings: …/torch/…: UserWarning: …
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
OURS = "agentfly"

ShowLine = Callable[[str], None]
"""Shows one line to the user, for example `RunProgress.message`."""


@contextmanager
def log_to(path: Path, *, show: ShowLine | None = None) -> Iterator[None]:
    """Append all log messages and Python's warnings to a file while the body runs.

    Handlers of libraries that write to the terminal are removed meanwhile. AgentFly's own warnings
    are also passed to `show`, each text once.

        with log_to(run.log_file, show=progress.message):
            ...
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    file.setLevel(logging.INFO)
    file.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%d %H:%M:%S"))
    with ExitStack() as stack:
        stack.callback(file.close)
        stack.enter_context(_attached(file, logging.getLogger()))
        if show:
            stack.enter_context(_attached(_ShowHandler(show), logging.getLogger(OURS)))
        stack.enter_context(_at_info_level(logging.getLogger(OURS)))
        for logger in _loggers_with_a_terminal():
            stack.enter_context(_silenced(logger))
        logging.captureWarnings(capture=True)
        stack.callback(logging.captureWarnings, capture=False)
        yield


class _ShowHandler(logging.Handler):
    """Shows each message once, also that of a tool that fails a thousand times."""

    def __init__(self, show: ShowLine) -> None:
        super().__init__(logging.WARNING)
        self._show = show
        self._shown: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self._shown:
            self._shown.add(text)
            self._show(text)


@contextmanager
def _attached(handler: logging.Handler, logger: logging.Logger) -> Iterator[None]:
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _at_info_level(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    """Send a library's records to the file instead of to its own handlers."""
    aside = [handler for handler in logger.handlers if _writes_to_a_terminal(handler)]
    propagate = logger.propagate
    for handler in aside:
        logger.removeHandler(handler)
    logger.propagate = True
    try:
        yield
    finally:
        logger.propagate = propagate
        for handler in aside:
            logger.addHandler(handler)


def _loggers_with_a_terminal() -> list[logging.Logger]:
    _set_up_transformers_logging()
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    return [logger for logger in loggers if any(map(_writes_to_a_terminal, logger.handlers))]


def _writes_to_a_terminal(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(
        handler, logging.FileHandler
    )


def _set_up_transformers_logging() -> None:
    """Have transformers add its handler now, not later, when the others have been removed."""
    try:
        from transformers.utils.logging import get_logger
    except ImportError:
        return
    get_logger()
