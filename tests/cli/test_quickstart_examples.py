"""The examples that train: their tasks, their settings, and the maths of the one-page version."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.usable_environments import usable_definition

from agentfly import Agent, Group, SamplingParams, Trajectory, reward
from agentfly.agents import resolve_run
from agentfly.agents.source_parts import resolve_source
from agentfly.chat import TemplateRenderer
from agentfly.config import load_settings
from agentfly.config.sft_settings import load_sft_settings
from agentfly.engines.local import LocalEngine
from agentfly.models import load_model, resolve_model
from agentfly.tasks import load_tasks
from agentfly.tools import calculator
from agentfly.training import make_samples

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tiny_run_finds_everything_it_names() -> None:
    settings = load_settings(EXAMPLES / "tiny_calculator.toml")
    (source,) = settings.source
    assert source.tasks is not None
    assert source.eval_tasks is not None
    assert len(resolve_run(settings, base=EXAMPLES).sources) == 1
    assert len(load_tasks(source.tasks, base=EXAMPLES)) == 1024
    assert len(load_tasks(source.eval_tasks, base=EXAMPLES)) == 64


WITH_ENVIRONMENTS = sorted(EXAMPLES.glob("*_warm.toml"))


@pytest.mark.parametrize("warm", WITH_ENVIRONMENTS, ids=lambda path: path.stem)
def test_an_environments_example_finds_everything_and_follows_its_warm_start(warm: Path) -> None:
    run = load_settings(warm.with_name(warm.name.replace("_warm", "")))
    start = load_sft_settings(warm)
    assert run.model.name == str(start.folder / start.name / "model")
    assert start.data.retokenize
    assert start.data.kind == run.source[0].kind
    (source,) = run.source
    usable_definition(str(source.environment))
    assert resolve_source(source, base=EXAMPLES).kit


def test_the_tiny_questions_are_right_apart_and_some_need_two_calls() -> None:
    tasks = example("tiny_calculator_tasks")
    everything = [_asked(row) for row in tasks.held_out() + tasks.training()]
    assert all(result == answer for _, result, answer, _ in everything)
    assert len({factors for factors, *_ in everything}) == len(everything)
    assert sum(twice for *_, twice in everything) == len(everything) // 3


def _asked(row: dict[str, str]) -> tuple[frozenset[int], int, int, bool]:
    """Return a question's factors, its result, the answer given, and whether it has two steps."""
    found = re.fullmatch(r"What is (\d+)\*(\d+)\?(?: Then (plus|minus) (\d+)\.)?", row["question"])
    assert found is not None
    then = int(found[4] or 0) * (-1 if found[3] == "minus" else 1)
    result = int(found[1]) * int(found[2]) + then
    return frozenset((int(found[1]), int(found[2]))), result, int(row["answer"]), bool(found[3])


@pytest.fixture
def page() -> ModuleType:
    return example("one_page_grpo")


@pytest.fixture
def model() -> Any:
    return load_model(resolve_model("tiny"), dtype=torch.float32, device="cpu")


@reward
def every_other(trajectory: Trajectory, spread: bool) -> bool:
    """Score by the chain's number alone, whatever the model says on this machine."""
    return spread and trajectory.chain_id.endswith(("1", "3"))


async def sampled(model: Any) -> tuple[Group, ...]:
    """Return one group with both rewards, and one without any spread."""
    renderer = TemplateRenderer.from_folder(resolve_model("tiny"))
    engine = LocalEngine(model, renderer.tokenizer)
    agent = Agent(
        engine,
        renderer=renderer,
        tools=[calculator],
        reward=every_other,
        sampling=SamplingParams(max_tokens=48),
        max_turns=3,
    )
    rows = [{"question": "What is 23*41?", "spread": spread} for spread in (True, False)]
    result = await agent.run(rows, num_chains=4)
    await engine.close()
    return result.groups


async def test_the_page_learns_from_exactly_what_was_sampled(page: ModuleType, model: Any) -> None:
    for group in await sampled(model):
        for chain in group.members:
            (sample,) = make_samples(chain)
            said = [
                lp for turn in chain.turns if turn.completion for lp in turn.completion.logprobs
            ]
            with torch.no_grad():
                assert torch.allclose(page.logprobs(model, sample), torch.tensor(said), atol=1e-4)


async def test_an_update_prefers_the_good_chains_of_a_group(page: ModuleType, model: Any) -> None:
    mixed, flat = await sampled(model)
    assert not list(page.compare(flat))
    lessons = list(page.compare(mixed))
    signs = [float(advantage) > 0 for _, advantage in lessons]
    assert signs == [False, True, False, True]

    def objective() -> float:
        with torch.no_grad():
            return sum(float(a * page.logprobs(model, s).sum()) for s, a in lessons)

    before = objective()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    tokens = page.update(model, optimizer, [mixed, flat])
    assert tokens == sum(sample.num_trained for sample, _ in lessons)
    assert objective() > before


async def test_without_spread_nothing_changes(page: ModuleType, model: Any) -> None:
    _, flat = await sampled(model)
    before = [weight.clone() for weight in model.parameters()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    assert page.update(model, optimizer, [flat]) == 0
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
