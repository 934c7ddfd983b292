"""The quick start that is stopped, and what it then promises."""

from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import agentfly.training
from agentfly.cli import quickstart as run
from agentfly.cli.quickstart import quickstart
from agentfly.config import RunSettings
from agentfly.training import RunFolder

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(quickstart)


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Stop the training as it begins; note each time whether it was to be resumed."""
    calls: list[bool] = []

    def train(settings: RunSettings, *, resume: bool) -> None:
        calls.append(resume)
        if not resume:
            RunFolder.create(settings.folder / settings.name, config="").close()
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "fetch", lambda *_, **__: None)
    monkeypatch.setattr(agentfly.training, "train", train)
    return calls


def stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "moment",
    [
        lambda patch: patch.setattr(run, "fetch", stop),
        lambda patch: patch.setattr(agentfly.training, "train", stop),
    ],
    ids=["fetching", "loading"],
)
def test_nothing_is_promised_where_there_is_nothing_to_resume(
    tmp_path: Path,
    resumed: list[bool],
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[[pytest.MonkeyPatch], None],
) -> None:
    moment(monkeypatch)
    stopped = CliRunner().invoke(app, ["--folder", str(tmp_path)])
    assert stopped.exit_code == 130
    again = f"agentfly quickstart --folder {tmp_path}"
    assert stopped.stderr.endswith(f"nothing to resume; start again with: {again}\n")


def test_what_is_promised_works_and_resuming_nothing_starts(
    tmp_path: Path, resumed: list[bool]
) -> None:
    folder = ["--folder", str(tmp_path)]
    for _ in range(2):
        stopped = CliRunner().invoke(app, [*folder, "--resume"])
        assert stopped.exit_code == 130
        reported = f"go on with: agentfly quickstart --folder {tmp_path} --resume\n"
        assert stopped.stderr.endswith(reported)
    assert resumed == [False, True]
