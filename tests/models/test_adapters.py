"""A folder of LoRA adapters is as good as a model's: chatted with, trained from, merged."""

import asyncio
import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from agentfly import Agent, SamplingParams
from agentfly.agents.preflight import missing_requirements
from agentfly.cli.main import app
from agentfly.config import LoraSettings, ModelSettings, TrackSettings
from agentfly.errors import ConfigError
from agentfly.models import load_model, resolve_model
from agentfly.training.learner.policy import Policy

LORA = ModelSettings(name="tiny", lora=LoraSettings(rank=4), precision="float32", device="cpu")
GREEDY = SamplingParams(temperature=0, max_tokens=12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGENTFLY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def train_a_little(policy: Policy) -> None:
    """Move the adapters far enough that the model answers something else."""
    with torch.no_grad():
        for name, weight in policy.causal_lm.named_parameters():
            if "lora_B" in name:
                weight.add_(0.3 * torch.sin(torch.arange(weight.numel())).reshape(weight.shape))


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Policy, Path]:
    """Return a policy with adapters, and its checkpoint."""
    policy = Policy.load(LORA)
    train_a_little(policy)
    checkpoint = tmp_path / "runs" / "x" / "checkpoints" / "step_8"
    policy.save(checkpoint)
    return policy, checkpoint


def weights(folder: Path) -> dict[str, torch.Tensor]:
    model = load_model(folder, dtype=torch.float32, device="cpu")
    state: dict[str, torch.Tensor] = model.state_dict()
    return state


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_a_checkpoint_of_adapters_is_used_as_the_merged_model(
    trained: tuple[Policy, Path], tmp_path: Path, cache: Path
) -> None:
    policy, checkpoint = trained
    config = json.loads((checkpoint / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "tiny"
    policy.export(tmp_path / "exported")
    folder = resolve_model(checkpoint)
    assert same(weights(folder), weights(tmp_path / "exported")), "bit for bit"
    assert not same(weights(folder), weights(resolve_model("tiny")))
    assert resolve_model(checkpoint) == folder
    assert [path for path in cache.iterdir() if path.is_dir()] == [folder], "made once"

    async def answers(model: Path) -> list[int]:
        async with Agent(model, sampling=GREEDY) as agent:
            (trajectory,) = (await agent.run("What is 2+2?")).trajectories
        return list(trajectory.streams[0].token_ids)

    assert asyncio.run(answers(checkpoint)) == asyncio.run(answers(tmp_path / "exported"))


def test_a_run_starts_from_adapters_and_puts_new_ones_on_top(
    trained: tuple[Policy, Path], tmp_path: Path
) -> None:
    settings = LORA.model_copy(update={"name": str(trained[1])})
    assert list(missing_requirements(settings, TrackSettings(trackers=()))) == []
    again = Policy.load(settings)
    now = {tensor.name: tensor.read() for tensor in again.tensors()}
    assert same(now, weights(resolve_model(trained[1]))), "new adapters change nothing"
    train_a_little(again)
    again.save(tmp_path / "second")
    again.export(tmp_path / "exported")
    assert same(weights(resolve_model(tmp_path / "second")), weights(tmp_path / "exported"))


def test_merging_is_one_command(trained: tuple[Policy, Path], tmp_path: Path) -> None:
    out = tmp_path / "merged"
    run = CliRunner().invoke(app, ["models", "merge", str(trained[1]), str(out)])
    assert (run.exit_code, run.output.strip()) == (0, str(out))
    assert resolve_model(out) == out
    assert same(weights(out), weights(resolve_model(trained[1])))
    assert (out / "tokenizer.json").is_file()
    wrong: list[tuple[list[str | Path], str]] = [
        ([trained[1], out], "is there already: name a new folder"),
        (
            [out, tmp_path / "b"],
            "is not an adapter's folder: expected one with adapter_config",
        ),
        ([trained[1], tmp_path / "b", "--dtype", "int4"], "unknown dtype 'int4'. Known: bfloat16"),
    ]
    for arguments, said in wrong:
        run = CliRunner().invoke(app, ["models", "merge", *[str(one) for one in arguments]])
        assert run.exit_code == 2
        assert said in run.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base_model_name_or_path": None}, r"does not name its base model.*Write the base's fold"),
        (
            {"base_model_name_or_path": "tinny"},
            r"base model of .* is not here: unknown model 'tin",
        ),
    ],
)
def test_an_adapter_whose_base_can_not_be_found(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps(change))
    (tmp_path / "adapter_model.safetensors").touch()
    with pytest.raises(ConfigError, match=said):
        resolve_model(tmp_path)
    settings = ModelSettings(name=str(tmp_path))
    (problem,) = missing_requirements(settings, TrackSettings(trackers=()))
    assert problem.key == "model.name"


def test_adapters_that_are_not_whole_and_a_runs_folder(trained: tuple[Policy, Path]) -> None:
    run = trained[1].parent.parent
    with pytest.raises(ConfigError, match=r"neither config.json nor .*such as '.*step_8'"):
        resolve_model(run)
    (trained[1] / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"the adapter is not whole\. Copy it again"):
        resolve_model(trained[1])
