"""Engines are made from the table `[engine]`, and by nothing else."""

import ast
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.engines.local_models import llama
from tests.engines.test_vllm_engine import sample

import agentfly
from agentfly.config import EngineSettings
from agentfly.engines import EngineSpec, ReplicatedEngine, make_engine
from agentfly.engines.factory import engine_problems
from agentfly.engines.local import LocalEngine
from agentfly.engines.vllm.maker import PYTHON_VARIABLE, make_vllm
from agentfly.engines.vllm.service import VllmService
from agentfly.errors import EngineError
from agentfly.types import AdapterFolder, NamedTensors, WeightsFolder

RUNNING: dict[str, Any] = {"name": "vllm", "urls": ["http://a:1"]}
STARTED: dict[str, Any] = {"name": "vllm", "replicas": 2, "python": sys.executable}
CONCRETE = {"LocalEngine", "VllmEngine", "VllmService"}


def spec(folder: Path, **choices: Any) -> EngineSpec:
    module = llama()
    settings = EngineSettings(**choices)
    return EngineSpec(folder=folder, load=lambda dtype: module, settings=settings, dtype="float32")


async def test_local_by_default_over_the_very_weights(tmp_path: Path) -> None:
    engine = make_engine(spec(tmp_path))
    assert isinstance(engine, LocalEngine)
    assert engine.samples_exactly
    await engine.close()
    rounded = make_engine(spec(tmp_path, dtype="bfloat16"))
    assert not rounded.shares_tensors
    await rounded.close()


async def test_replicas_share_the_places(tmp_path: Path) -> None:
    engine = make_engine(spec(tmp_path, replicas=2))
    assert isinstance(engine, ReplicatedEngine)
    assert engine.shares_tensors
    await engine.close()
    chosen = spec(tmp_path, replicas=3)
    assert chosen.own_concurrency == 22, "64 requests over three"


def test_a_maker_of_ones_own_gets_the_spec(tmp_path: Path) -> None:
    made: list[EngineSpec] = []

    def make(given: EngineSpec) -> Any:
        made.append(given)
        return object()

    make_engine(spec(tmp_path, replicas=2, options={"a": 1}), make)
    assert [(one.replica, one.settings.options) for one in made] == [(0, {"a": 1}), (1, {"a": 1})]


@pytest.mark.parametrize(
    ("choices", "rank", "takes"),
    [
        ({}, None, WeightsFolder),
        ({}, 4, AdapterFolder),
        ({"weights": "folder"}, 4, WeightsFolder),
        ({"weights": "nccl"}, None, NamedTensors),
    ],
)
def test_how_weights_get_to_vllm(
    tmp_path: Path, choices: dict[str, Any], rank: int | None, takes: type
) -> None:
    given = EngineSpec(
        folder=tmp_path,
        load=lambda dtype: None,
        settings=EngineSettings(name="vllm", urls=("http://localhost:1",), **choices),
        lora_rank=rank,
    )
    engine = make_engine(given)
    assert isinstance(engine, VllmService)
    assert engine.takes == {takes}


@pytest.mark.parametrize(
    ("choices", "key", "text"),
    [
        ({"name": "vlm"}, "engine.name", "unknown engine 'vlm'. Did you mean 'vllm'?"),
        ({"name": "math:pi"}, "engine.name", "math:pi is no engine, but of type float"),
        ({"urls": ["http://a:1"]}, "engine.urls", "is for the engine 'vllm'"),
        ({"name": "vllm", "urls": ["localhost:1"]}, "engine.urls.0", "a server's url looks like"),
        ({"name": "vllm", "urls": ["http://a:1/v1"]}, "engine.urls.0", "without /v1"),
        (
            {"name": "vllm", "urls": ["http://a:1", "http://a:2"], "replicas": 3},
            "engine.replicas",
            "must be left out, or 2 as there are urls",
        ),
        (
            {"name": "vllm", "urls": ["http://a:1", "http://a:1/"]},
            "engine.urls.1",
            "names http://a:1 twice",
        ),
        ({"name": "vllm", "urls": ["http://[::1"]}, "engine.urls.0", "a server's url looks like"),
        ({"name": "vllm", "urls": ["http://a:99999"]}, "engine.urls.0", "a server's url looks"),
        (RUNNING | {"python": sys.executable}, "engine.python", "names running ones"),
        (RUNNING | {"arguments": ["--x"]}, "engine.arguments", "names running ones"),
        (RUNNING | {"variables": {"A": "1"}}, "engine.variables", "names running ones"),
        (RUNNING | {"gpus": [0]}, "engine.gpus", "names running ones"),
        (RUNNING | {"startup_seconds": 9}, "engine.startup_seconds", "names running ones"),
        (RUNNING | {"weights": "nccl"}, "engine.weights", "vLLM is not installed in this"),
        (RUNNING | {"nccl_address": "a"}, "engine.nccl_address", "is for weights = 'nccl'"),
        ({"nccl_address": "a"}, "engine.nccl_address", "is for the engine 'vllm'"),
        ({"weights": "nccl"}, "engine.weights", "is for the engine 'vllm'"),
        ({"gpus": [0]}, "engine.gpus", "is for the engine 'vllm'"),
        (STARTED | {"gpus": [4, 5, 6]}, "engine.gpus", "each of 2 replicas, got 3 in all"),
        (STARTED | {"gpus": [4, 4]}, "engine.gpus", "names a GPU twice: [4, 4]"),
        ({"options": {"a": 1}}, "engine.options", "is for engines of your own"),
        ({"name": "vllm", "python": "/no/python"}, "engine.python", "is no program"),
        ({"name": "vllm"}, "engine.python", "vLLM is not installed here"),
    ],
)
def test_what_is_wrong_with_the_table(
    monkeypatch: pytest.MonkeyPatch, choices: dict[str, Any], key: str, text: str
) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    (problem,) = engine_problems(EngineSettings(**choices))
    assert problem.key == key
    assert text in problem.text


async def test_each_started_server_gets_gpus_of_its_own(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "GPUs $CUDA_VISIBLE_DEVICES, options $*"\nexit 3\n')
    program.chmod(0o755)
    chosen = {"name": "vllm", "replicas": 2, "gpus": [4, 5, 6, 7], "python": str(program)}
    for replica, gpus in enumerate(("4,5", "6,7")):
        given = replace(spec(tmp_path, **chosen), replica=replica, log_folder=tmp_path)
        with pytest.raises(EngineError, match=f"GPUs {gpus}, options .*--tensor-parallel-size 2"):
            await sample(make_vllm(given))


def test_a_server_can_not_be_deterministic() -> None:
    settings = EngineSettings(name="vllm", urls=("http://localhost:1",))
    (problem,) = engine_problems(settings, deterministic=True)
    assert "can't be deterministic" in problem.text


def test_nothing_above_engines_names_a_concrete_engine() -> None:
    root = Path(agentfly.__file__).parent
    named = [
        str(file.relative_to(root))
        for file in root.glob("*/**/*.py")
        if file.relative_to(root).parts[0] != "engines"
        for node in ast.walk(ast.parse(file.read_text()))
        if _names_engine(node)
    ]
    assert not named


def _names_engine(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name):
            return name in CONCRETE
        case ast.ImportFrom(module=str(module)):
            return module.startswith(("agentfly.engines.local", "agentfly.engines.vllm"))
        case ast.alias(name=name):
            return name in CONCRETE
    return False
