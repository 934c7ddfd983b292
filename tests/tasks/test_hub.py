"""Datasets by name. The package `datasets` reads a local folder by the same call as a hub's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.tasks import load_tasks
from agentfly.tasks.task_loading import HubDataset


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hub:squad", ("squad", None, "train")),
        ("hub:openai/gsm8k:test", ("openai/gsm8k", None, "test")),
        ("hub:openai/gsm8k:main:test", ("openai/gsm8k", "main", "test")),
        ("hub:a/b:main:train[:10%]", ("a/b", "main", "train[:10%]")),
        ("hub:a/b:train[10:20]", ("a/b", None, "train[10:20]")),
    ],
)
def test_a_name_has_a_dataset_a_configuration_and_a_split(
    name: str, parts: tuple[str, str | None, str]
) -> None:
    found = HubDataset.parse(name)
    assert (found.dataset, found.configuration, found.split) == parts


@pytest.mark.parametrize("name", ["hub:", "hub::train", "hub:a:b:c:d", "hub:a:", "hub:a:train[0"])
def test_a_name_of_no_dataset_is_reported(name: str) -> None:
    with pytest.raises(ConfigError, match="names no dataset: write hub:organization/name"):
        load_tasks(name)


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dataset in two splits, with the cache of `datasets` in a place of its own."""
    folder = tmp_path / "sums"
    folder.mkdir()
    for split, count in (("train", 3), ("test", 1)):
        rows = [{"question": f"{split} {n}?", "answer": n} for n in range(count)]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    return folder


def test_rows_come_from_the_split_that_was_named(dataset: Path) -> None:
    assert [task.fields["answer"] for task in load_tasks(f"hub:{dataset}")] == [0, 1, 2]
    [task] = load_tasks(f"hub:{dataset}:test", source="sums")
    assert (task.messages[0].content, task.source) == ("test 0?", "sums")
    assert [task.fields["answer"] for task in load_tasks(f"hub:{dataset}:train[1:]")] == [1, 2]
    [again] = load_tasks([{"answer": 0, "question": "test 0?"}])
    assert task.id == again.id, "a row is known by its contents, wherever it came from"


def test_a_wrong_split_or_configuration_is_reported(dataset: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"loading the dataset .* raised .*Unknown split \"tset\""
    ):
        load_tasks(f"hub:{dataset}:tset")
    with pytest.raises(ConfigError, match=r"loading the dataset .* 'main' not found"):
        load_tasks(f"hub:{dataset}:main:test")


def test_without_the_package_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"needs the package `datasets`.*agentfly\[hub\]"):
        load_tasks("hub:openai/gsm8k")


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path) -> None:
    # In a process of its own, because the libraries read these variables when they are imported.
    code = "from agentfly.tasks import load_tasks; load_tasks('hub:nobody/nothing')"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 1
    assert "the dataset 'nobody/nothing' is not in the cache, and the hub can't be" in run.stderr
    assert "Connect, or save the rows as JSON lines" in run.stderr
