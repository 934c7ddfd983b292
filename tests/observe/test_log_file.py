"""Library noise goes into the log file, not to the terminal."""

import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentfly.observe.log_file import log_to


@pytest.fixture
def noisy() -> Iterator[logging.Logger]:
    """A library with a handler of its own, as transformers has one."""
    logger = logging.getLogger("noisy_library")
    handler = logging.StreamHandler()
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)


def test_a_library_speaks_into_the_file_only(
    tmp_path: Path, noisy: logging.Logger, capfd: pytest.CaptureFixture[str]
) -> None:
    with log_to(tmp_path / "run" / "log.txt"):
        noisy.warning("a new version is out")
        logging.getLogger("quiet_library").warning("no handler of its own")
    assert capfd.readouterr() == ("", "")
    logged = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert [line[20:] for line in logged] == [
        "WARNING noisy_library: a new version is out",
        "WARNING quiet_library: no handler of its own",
    ]


def test_afterwards_all_is_as_it_was(tmp_path: Path, noisy: logging.Logger) -> None:
    before = (list(noisy.handlers), noisy.propagate, logging.getLogger().handlers[:])
    ours = logging.getLogger("agentfly").level
    shown = warnings.showwarning
    with pytest.raises(KeyError), log_to(tmp_path / "log.txt"):
        raise KeyError
    assert (list(noisy.handlers), noisy.propagate, logging.getLogger().handlers[:]) == before
    assert logging.getLogger("agentfly").level == ours
    assert warnings.showwarning is shown


def test_warnings_are_logged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings(), log_to(tmp_path / "log.txt"):
        warnings.simplefilter("always")
        warnings.warn("soon gone", FutureWarning, stacklevel=1)
    assert "FutureWarning: soon gone" in (tmp_path / "log.txt").read_text()
    assert capfd.readouterr().err == ""


def test_our_own_warnings_are_reported(tmp_path: Path) -> None:
    shown: list[str] = []
    ours = logging.getLogger("agentfly.training")
    with log_to(tmp_path / "log.txt", show=shown.append):
        ours.info("for the file")
        ours.warning("step_%d is ignored", 3)
        logging.getLogger("transformers").warning("noise")
    assert shown == ["step_3 is ignored"]
    assert "INFO agentfly.training: for the file" in (tmp_path / "log.txt").read_text()


def test_a_resumed_run_continues_its_log(tmp_path: Path) -> None:
    for word in ("first", "second"):
        with log_to(tmp_path / "log.txt"):
            logging.getLogger("any").warning(word)
    assert len((tmp_path / "log.txt").read_text().splitlines()) == 2


def test_transformers_is_silent_even_if_it_has_not_spoken_before(tmp_path: Path) -> None:
    code = f"""
from pathlib import Path
from agentfly.observe.log_file import log_to
with log_to(Path({str(tmp_path)!r}) / "log.txt"):
    from transformers.utils import logging
    logging.get_logger("transformers.modeling").warning("loud")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    assert "transformers.modeling: loud" in (tmp_path / "log.txt").read_text()
