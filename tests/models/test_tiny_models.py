"""The tiny models themselves."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentfly.models import fetch, model_info, resolve_model
from agentfly.models.model_cache import quiet, sha256
from agentfly.models.tiny.build import RECIPES, build_pretrained
from agentfly.models.tiny.pretrain import SHAPES, Recipe, random_model
from agentfly.models.tiny.solve_rate import solve_rate

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return transformers.AutoTokenizer.from_pretrained(resolve_model("tiny"))


@pytest.fixture(scope="module")
def tiny() -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(resolve_model("tiny"))


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "pretrain.jsonl").read_text().splitlines()]


def test_the_shipped_folder_is_small_and_complete(tiny: Any, tokenizer: Any) -> None:
    folder = resolve_model("tiny")
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000
    assert tiny.num_parameters() == model_info("tiny").parameters
    assert tiny.config.vocab_size == len(tokenizer) == 3072
    assert tiny.config.max_position_embeddings == model_info("tiny").context
    ends = (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert (tiny.generation_config.eos_token_id, tiny.generation_config.pad_token_id) == ends


def test_the_shipped_weights_are_those_of_the_log(tiny: Any) -> None:
    folder = resolve_model("tiny")
    head, *_, last, weights = log_of(folder)
    assert Recipe(**head["recipe"]) == RECIPES["tiny"]
    assert head["parameters"] == tiny.num_parameters()
    assert last["solved"] >= RECIPES["tiny"].stop_at
    assert weights == {"model.safetensors": sha256(folder / "model.safetensors")}


@pytest.mark.slow
def test_tiny_solves_about_a_third_of_the_questions(tiny: Any, tokenizer: Any) -> None:
    assert 0.2 < solve_rate(tiny, tokenizer, questions=192, seed=1) < 0.5


@pytest.mark.parametrize("name", ["tiny", "tiny-5m", "tiny-15m"])
def test_the_sizes_are_what_the_zoo_says(name: str, tokenizer: Any) -> None:
    with torch.device("meta"):
        model = random_model(SHAPES[name], tokenizer, seed=0)
    assert model.num_parameters() == model_info(name).parameters


def test_tiny_random_is_the_same_everywhere(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = torch.random.get_rng_state()
    first = fetch("tiny-random")
    assert torch.equal(torch.random.get_rng_state(), state), "the global generator is left alone"
    monkeypatch.setenv("AGENTFLY_CACHE", str(cache.parent.parent / "other"))
    torch.manual_seed(7)
    second = fetch("tiny-random")
    assert second != first
    assert sha256(second / "model.safetensors") == sha256(first / "model.safetensors")
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(second)
    assert len(transformers.AutoTokenizer.from_pretrained(second)) == model.config.vocab_size
    assert model.num_parameters() == model_info("tiny-random").parameters


@pytest.mark.slow
def test_pre_training_learns_and_repeats_itself(tmp_path: Path) -> None:
    recipe = Recipe(max_tokens=2400, rows=2, warmup_steps=4, measure_every=1200)
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        build_pretrained(folder, quiet, recipe=recipe)
    one, two = (log_of(folder) for folder in folders)
    losses = [record["loss"] for record in one if "loss" in record]
    assert len(losses) == 2
    assert losses[1] < losses[0] - 1
    assert one[-1] == two[-1], "the same weights to the last bit"
    assert transformers.AutoModelForCausalLM.from_pretrained(folders[0]).num_parameters()
