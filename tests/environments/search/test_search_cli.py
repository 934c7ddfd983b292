"""`agentfly search index|query|serve`, as a person types them."""

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentfly.cli.search import search
from agentfly.environments.search import RemoteRetriever

runner = CliRunner()


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "docs.jsonl"
    rows = [{"id": "c", "title": "Cats", "text": "Cats purr."}, {"id": "d", "text": "Dogs bark."}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_index_then_query(documents: Path, tmp_path: Path) -> None:
    made = runner.invoke(search, ["index", str(documents), "--to", str(tmp_path / "index")])
    assert made.exit_code == 0, made.output
    assert "2 passages" in made.output
    found = runner.invoke(search, ["query", str(tmp_path / "index"), "purr", "-k", "1"])
    assert found.output.strip().endswith("[c] Cats: Cats purr.")
    nothing = runner.invoke(search, ["query", str(tmp_path / "index"), "zebra"])
    assert nothing.output == "nothing found\n"


def test_mistakes_are_reported_in_a_line(documents: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"text": "fine"}\n{"text": \n')
    told = runner.invoke(search, ["index", str(broken), "--to", str(tmp_path / "x")])
    assert told.exit_code == 2
    assert "broken.jsonl:2 is not JSON" in told.output
    told = runner.invoke(search, ["query", str(tmp_path / "x"), "words"])
    assert (told.exit_code, "holds no corpus" in told.output) == (2, True)
    told = runner.invoke(
        search, ["index", str(documents), "--to", "y", "--words", "5", "--overlap", "5"]
    )
    assert told.exit_code == 2


def test_a_folder_may_be_called_as_a_server_is(documents: Path, tmp_path: Path) -> None:
    folder = tmp_path / "httpdocs"
    runner.invoke(search, ["index", str(documents), "--to", str(folder)])
    with contextlib.chdir(tmp_path):
        found = runner.invoke(search, ["query", "httpdocs", "purr"])
    assert found.output.strip().endswith("[c] Cats: Cats purr.")


def test_a_port_that_is_taken_is_reported_in_a_line(documents: Path, tmp_path: Path) -> None:
    runner.invoke(search, ["index", str(documents), "--to", str(tmp_path / "index")])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = runner.invoke(search, ["serve", str(tmp_path / "index"), "--port", port])
    assert (told.exit_code, "Choose another port" in told.output) == (2, True)


SERVE = "from agentfly.cli.search import search; search()"


def test_serve_answers_other_processes(documents: Path, tmp_path: Path) -> None:
    runner.invoke(search, ["index", str(documents), "--to", str(tmp_path / "index")])
    command = [sys.executable, "-u", "-c", SERVE, "serve", str(tmp_path / "index"), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            line = next(line for line in server.stderr if "serving" in line)
            url = line.split(" at ")[1].strip()
            remote = RemoteRetriever(url)
            assert remote.search("bark", 3)[0].passage.id == "d"
            remote.close()
            asked = runner.invoke(search, ["query", url, "purr"])
            assert "Cats purr." in asked.output
        finally:
            server.terminate()
