"""Folders and snapshots that are not whole, and what is said of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.models import resolve_model
from agentfly.models.loading import load_model
from agentfly.models.model_hub import has_all_weights

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def filled(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("names", "whole"),
    [
        (["config.json", "model.safetensors"], True),
        (["config.json", "pytorch_model.bin"], True),
        (["config.json", "tokenizer.json"], False),
        (["model.safetensors"], False),
        (["config.json", "training_args.bin"], False),
        (["config.json", "model-00001-of-00002.safetensors"], False),
        (
            ["config.json", "model-00001-of-00002.safetensors", "model.safetensors.index.json"],
            False,
        ),
    ],
)
def test_which_folders_are_whole(tmp_path: Path, names: list[str], whole: bool) -> None:
    assert has_all_weights(filled(tmp_path, *names)) is whole


def test_shards_are_whole_when_all_that_the_index_names_are_there(tmp_path: Path) -> None:
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    filled(tmp_path, "config.json", *shards)
    index = {"weight_map": {"a": shards[0], "b": shards[1], "c": shards[1]}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert has_all_weights(tmp_path)
    (tmp_path / shards[1]).unlink()
    assert not has_all_weights(tmp_path)


def resolve_offline(cache: Path) -> str:
    """Resolve in a process of its own, because huggingface_hub reads its settings once."""
    program = (
        "from agentfly.errors import ConfigError\n"
        "from agentfly.models import resolve_model\n"
        "try: print(resolve_model('some/model'))\n"
        "except ConfigError as error: print('ConfigError', error)\n"
    )
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout


def test_a_snapshot_of_the_tokenizer_alone_is_not_taken_for_the_model(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    model = tmp_path / "models--some--model"
    snapshot = filled(model / "snapshots" / COMMIT, "config.json", "tokenizer.json")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    said = resolve_offline(tmp_path)
    assert "ConfigError" in said
    assert "no whole copy" in said
    assert "HF_HUB_OFFLINE is set" in said
    filled(snapshot, "model.safetensors")
    assert resolve_offline(tmp_path).strip() == str(snapshot)


def test_weights_that_were_cut_short_are_reported_with_the_way_out(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    folder = tmp_path / "tiny"
    shutil.copytree(resolve_model("tiny"), folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ConfigError, match=r"loading .*tiny raised .*Fetch it again"):
        load_model(folder, dtype=torch.float32, device="cpu")
