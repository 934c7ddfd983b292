"""Python code that comes with a model is not run, unless the user says so."""

import ast
import builtins
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.small_trainer import ROWS, letters, settings, train

import agentfly
from agentfly import Agent, SamplingParams, Source
from agentfly.environments.search.retrieval.dense import SentenceEmbedder
from agentfly.errors import ConfigError
from agentfly.models import load_model, model_hub, resolve_model

CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM
Path({mark!r}).touch()

class OwnConfig(LlamaConfig):
    model_type = "own"

class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Return a file that is there once the model's code has been run."""
    return tmp_path / "it_ran"


@pytest.fixture
def folder(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a model whose class is in its own folder."""
    transformers: Any = pytest.importorskip("transformers")
    cache = tmp_path / "modules"
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(cache))
    folder = Path(shutil.copytree(resolve_model("tiny-random"), tmp_path / "own-model"))
    config = json.loads((folder / "config.json").read_text())
    classes = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    config |= {"model_type": "own", "architectures": ["OwnModel"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "own.py").write_text(CODE.format(mark=str(mark)))
    return folder


def test_it_is_neither_run_nor_asked_about(
    folder: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "input", lambda *_: "y")  # how transformers asks by default
    with pytest.raises(
        ConfigError, match=r"own\.py.*not run unless.*model\.trust_remote_code = true"
    ):
        load_model(folder, dtype=torch.float32, device="cpu")
    with pytest.raises(ConfigError, match="not run unless"):
        Agent(folder).setup()
    assert not mark.exists()


def test_a_user_may_trust_it(folder: Path, mark: Path) -> None:
    model = load_model(folder, dtype=torch.float32, device="cpu", trust_remote_code=True)
    assert (type(model).__name__, mark.exists()) == ("OwnModel", True)


def test_a_run_that_trusts_it_says_so_in_its_settings_and_is_resumed(folder: Path) -> None:
    agent = Agent(
        folder,
        reward=letters,
        sampling=SamplingParams(max_tokens=6),
        max_turns=1,
        trust_remote_code=True,
    )
    tables: dict[str, Any] = {
        "model": {"name": str(folder), "trust_remote_code": True},
        "eval": {"every": 0, "at_start": False, "at_end": False},
    }
    source = Source(agent=agent, tasks=ROWS)
    result = train(source, chosen=settings(folder.parent, train={"steps": 1}, **tables))
    assert "trust_remote_code = true" in (result.folder / "config.toml").read_text()
    more = settings(folder.parent, train={"steps": 2}, **tables)
    assert train(source, chosen=more, resume=True).steps == 2


def test_python_files_are_fetched_only_for_a_user_who_trusts_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huggingface_hub: Any = pytest.importorskip("huggingface_hub")
    asked: list[bool] = []

    def snapshot(name: str, *, allow_patterns: list[str], local_files_only: bool = False) -> str:
        del name, local_files_only
        asked.append("*.py" in allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot)
    monkeypatch.setattr(model_hub, "_check_reachable", lambda _: None)
    model_hub.download("someone/own")
    model_hub.download("someone/own", trust_remote_code=True)
    assert asked == [False, True]
    (folder / "own.py").unlink()
    model_hub.download("someone/own", trust_remote_code=True)
    assert asked == [False, True, True, True], "a copy without its code is completed"


def test_code_of_an_embedding_model_in_a_folder_is_not_run(tmp_path: Path, mark: Path) -> None:
    pytest.importorskip("sentence_transformers")
    modules = [{"idx": 0, "name": "0", "path": "", "type": "own.Own"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    (tmp_path / "own.py").write_text(f"open({str(mark)!r}, 'w')\nclass Own: ...\n")
    with pytest.raises(ConfigError, match="loading the embedding model"):
        SentenceEmbedder(str(tmp_path)).embed(["x"])
    assert not mark.exists()


def test_every_loader_of_models_says_whether_it_trusts_their_code() -> None:
    silent, loaders = [], 0
    for file in Path(agentfly.__file__).parent.rglob("*.py"):
        calls = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.Call)]
        for call in filter(_may_run_code, calls):
            loaders += 1
            if "trust_remote_code" not in {keyword.arg for keyword in call.keywords}:
                silent.append(f"{file}:{call.lineno}")
    assert (loaders > 3, silent) == (True, [])


def _may_run_code(call: ast.Call) -> bool:
    name = ast.unparse(call.func)
    loads = name.endswith(".from_pretrained") and name.split(".")[-2].startswith("Auto")
    return loads or name.endswith("SentenceTransformer")
