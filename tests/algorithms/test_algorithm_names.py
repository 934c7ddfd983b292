"""From names and options to algorithms, and what is said when they are wrong."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from tests.algorithms.steps import advantage_input, loss_input, random_step, scored

from agentfly.algorithms import (
    ALGORITHMS,
    Algorithm,
    Clip,
    Correction,
    Critic,
    Kl,
    Overlong,
    make_algorithm,
)
from agentfly.algorithms.advantages import reinforce
from agentfly.algorithms.losses import policy_gradient
from agentfly.config import RunSettings, SettingsError, load_settings
from agentfly.errors import ConfigError

PLAIN = Algorithm(name="plain", advantage=reinforce, loss=policy_gradient)
NOTHING = 3

OWN = """
from agentfly.algorithms import advantage, loss

@advantage
def lucky(rewards_G):
    return rewards_G - rewards_G.min()

@advantage
def absolute(rewards_C, chain_N):
    return rewards_C[chain_N]

@loss
def squared(logprobs_N, advantages_N):
    return (logprobs_N - advantages_N) ** 2

@advantage
def scaled(rewards_G, scale: float = 2.0, clip=None):
    assert clip is None, "the name of an option that the loss has"
    return (rewards_G - rewards_G.mean()) * scale

@loss
def bent(logprobs_N, advantages_N, *, power: int = 2):
    return (logprobs_N - advantages_N) ** power
"""

TABLE = """
from agentfly.algorithms import ClippedOptions, by_group

class Shifted(ClippedOptions):
    name = "shifted"
    shift: float = 0.5

    def advantage(self):
        return by_group(lambda rewards_G: rewards_G - self.shift)

class Broken(ClippedOptions):
    def algorithm(self):
        raise KeyError("forgotten")
"""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_is_made_by_its_name_and_no_options(name: str) -> None:
    algorithm = make_algorithm(name)
    assert algorithm.name == name
    assert "arXiv:" in (ALGORITHMS[name].__doc__ or "") or "Williams" in (
        ALGORITHMS[name].__doc__ or ""
    )


def test_what_the_algorithms_need() -> None:
    made = {name: make_algorithm(name) for name in ALGORITHMS}
    free = {name for name, algorithm in made.items() if not algorithm.needs_group}
    assert free == {"ppo", "reinforce", "reinforce++"}
    assert {n for n, a in made.items() if a.needs_reference} == {
        "reinforce++",
        "reinforce++-baseline",
    }
    assert {n for n, a in made.items() if a.critic} == {"ppo"}
    assert {n for n, a in made.items() if a.dynamic_sampling} == {"dapo"}


def test_a_key_left_out_of_a_table_keeps_the_algorithms_own_default() -> None:
    kl = make_algorithm("reinforce++", {"kl": {"coefficient": 0.5}}).kl
    assert kl == Kl(coefficient=0.5, estimator="k1", place="reward")
    assert make_algorithm("grpo", {"kl": {"coefficient": 0.5}}).kl == Kl(coefficient=0.5)


def test_a_coefficient_of_0_needs_no_reference() -> None:
    assert not make_algorithm("reinforce++", {"kl": {"coefficient": 0}}).needs_reference


def test_options_reach_what_they_are_for() -> None:
    algorithm = make_algorithm(
        "dapo",
        {
            "entropy_coefficient": 0.1,
            "correction": {"level": "sequence", "how": "mask", "cap": 3},
            "overlong": {"max_tokens": 100, "soft_tokens": 20},
            "dynamic_sampling": False,
        },
    )
    assert algorithm.entropy_coefficient == 0.1
    assert algorithm.correction == Correction(level="sequence", how="mask", cap=3)
    assert algorithm.overlong == Overlong(max_tokens=100, soft_tokens=20)
    assert not algorithm.dynamic_sampling
    assert make_algorithm("gigpo", {"dynamic_sampling": True}).dynamic_sampling
    assert make_algorithm("ppo", {"critic": {"clip_value": 0.7}}).critic == Critic(clip_value=0.7)


def test_what_a_run_writes_down_makes_the_same_algorithm() -> None:
    for name, options in ALGORITHMS.items():
        written = options().model_dump(mode="json", exclude_none=True)
        assert options.model_validate(written) == options()
        assert make_algorithm(name, written).kl == make_algorithm(name).kl


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("grppo", {}, "unknown algorithm 'grppo'. Did you mean 'grpo'?"),
        ("grpo", {"clipp": 1}, "algorithm.clipp: unknown key. Did you mean 'clip'?"),
        ("grpo", {"clip": {"hihg": 1}}, "algorithm.clip.hihg: unknown key. Did you mean 'high'?"),
        ("grpo", {"clip": {"low": -1}}, "must be 0 or more: got -1"),
        ("grpo", {"clip": {"dual": 0.5}}, "dual must be above 1: got 0.5"),
        ("grpo", {"kl": {"coefficient": -1}}, "must be 0 (off) or more: got -1"),
        ("grpo", {"kl": {"estimator": "k4"}}, "must be 'k1', 'k2' or 'k3', got 'k4'"),
        ("grpo", {"kl": {"estimator": "k1"}}, "algorithm.kl: estimator 'k1' pulls nowhere on"),
        ("reinforce++", {"kl": {"place": "loss"}}, "in the loss: take 'k2' or 'k3' there, or"),
        ("grpo", {"correction": {"cap": 0.5}}, "cap must be 1 or more"),
        ("grpo", {"critic": {}}, "algorithm.critic: unknown key"),
        ("dr-grpo", {"aggregation": "token_mean"}, "algorithm.aggregation: unknown key"),
        ("ppo", {"critic": {"clip_value": 0}}, "must be above 0: got 0"),
        ("dapo", {"overlong": {"max_tokens": 9, "soft_tokens": 10}}, "got 10 of 9"),
        ("dapo", {"overlong": {"max_tokens": 9}}, "algorithm.overlong.soft_tokens: missing"),
    ],
)
def test_a_mistake_is_reported_with_the_way_out(
    name: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_algorithm(name, options)
    assert said in str(caught.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        make_algorithm("grpo", {"clipp": 1, "entropy_coefficient": -1})
    assert "clipp" in str(caught.value)
    assert "entropy_coefficient" in str(caught.value)


def test_settings_are_checked_by_the_same_tables() -> None:
    text = (
        'name = "x"\nmodel.name = "tiny"\n[[source]]\ntasks = "a"\n'
        '[algorithm]\nname = "dapo"\nclip.high = {}\n'
    )
    settings: RunSettings = load_settings(text.format("0.4"), plugins={"algorithm": ALGORITHMS})
    algorithm = make_algorithm(settings.algorithm.name, settings.algorithm.options)
    x = loss_input(random_step(0))
    high = make_algorithm("dapo", {"clip": {"high": 0.4}}).loss(x)
    assert torch.equal(algorithm.loss(x).loss_N, high.loss_N)
    with pytest.raises(ConfigError, match=r"algorithm\.clip: low and high must be 0 or more"):
        load_settings(text.format("-1"), plugins={"algorithm": ALGORITHMS})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_algorithms.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "own_algorithms", raising=False)
    return tmp_path


def test_an_advantage_of_ones_own_by_import_path(folder: Path) -> None:
    algorithm = make_algorithm("own_algorithms:lucky", {"clip": {"high": 0.5}}, base=folder)
    assert algorithm.name == "own_algorithms:lucky"
    (problem,) = algorithm.problems(1)
    assert problem.text.startswith("own_algorithms:lucky compares the chains of a task")
    assert algorithm.needs_group
    x = loss_input(random_step(0))
    expected = make_algorithm("grpo", {"clip": {"high": 0.5}}).loss(x).loss_N
    assert torch.equal(algorithm.loss(x).loss_N, expected)
    assert not make_algorithm("own_algorithms:absolute", base=folder).needs_group


def test_a_loss_of_ones_own_by_import_path(folder: Path) -> None:
    options = {"aggregation": "sequence_mean_of_sums"}
    algorithm = make_algorithm("own_algorithms:squared", options, base=folder)
    x = loss_input(random_step(0))
    assert torch.equal(algorithm.loss(x).loss_N, (x.logprobs_N - x.advantages_N) ** 2)
    grpo = make_algorithm("grpo", options)
    assert algorithm.aggregate is grpo.aggregate
    step = advantage_input(scored(random_step(0)))
    assert torch.equal(algorithm.advantage(step).advantages_N, grpo.advantage(step).advantages_N)
    with pytest.raises(SettingsError) as caught:
        make_algorithm("own_algorithms:squared", {"clip": {"low": 0.1}}, base=folder)
    assert [problem.key for problem in caught.value.problems] == ["algorithm.clip"]


def test_the_parameters_of_functions_of_ones_own_are_options(folder: Path) -> None:
    step = advantage_input(scored(random_step(0)))

    def advantages(options: dict[str, Any]) -> torch.Tensor:
        algorithm = make_algorithm("own_algorithms:scaled", options, base=folder)
        return algorithm.advantage(step).advantages_N

    assert torch.equal(advantages({}), advantages({"scale": 2}))
    assert torch.allclose(advantages({"scale": 3.0, "clip": {"low": 0.1}}), advantages({}) * 1.5)
    x = loss_input(random_step(0))
    cubed = make_algorithm("own_algorithms:bent", {"power": 3}, base=folder)
    assert torch.equal(cubed.loss(x).loss_N, (x.logprobs_N - x.advantages_N) ** 3)
    assert cubed.name == "own_algorithms:bent"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scael": 1.0}, "algorithm.scael: unknown key. Did you mean 'scale'?"),
        ({"scale": "much"}, "algorithm.scale: must be a number, got 'much'"),
    ],
)
def test_options_of_functions_of_ones_own_are_checked(
    folder: Path, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        make_algorithm("own_algorithms:scaled", options, base=folder)
    assert said in str(caught.value)


def test_a_table_of_options_of_ones_own(folder: Path) -> None:
    (folder / "own_tables.py").write_text(TABLE)
    algorithm = make_algorithm("own_tables:Shifted", {"shift": 1.0}, base=folder)
    assert (algorithm.name, algorithm.needs_group) == ("own_tables:Shifted", True)
    with pytest.raises(SettingsError, match=r"algorithm.shfit: unknown key. Did you mean 'shift'"):
        make_algorithm("own_tables:Shifted", {"shfit": 1.0}, base=folder)
    with pytest.raises(ConfigError, match="making the algorithm own_tables:Broken raised KeyError"):
        make_algorithm("own_tables:Broken", base=folder)


def test_only_algorithms_are_offered_for_a_misspelled_one(folder: Path) -> None:
    file = folder / "own_algorithms.py"
    file.write_text(f"{OWN}\n\ndef luckily(turns): return [True for _ in turns]\n")
    with pytest.raises(ConfigError, match="Did you mean 'lucky'") as caught:
        make_algorithm("own_algorithms:luckyly", base=folder)
    assert "luckily" not in str(caught.value)


def test_a_whole_algorithm_by_import_path() -> None:
    here = "tests.algorithms.test_algorithm_names"
    assert make_algorithm(f"{here}:PLAIN").name == "plain"
    with pytest.raises(ConfigError, match="takes no options: got clip"):
        make_algorithm(f"{here}:PLAIN", {"clip": {}})
    with pytest.raises(ConfigError, match="is no algorithm, but of type int: an algorithm of y"):
        make_algorithm(f"{here}:NOTHING")
    with pytest.raises(ConfigError, match="Did you mean 'PLAIN'"):
        make_algorithm(f"{here}:PLAINE")


def test_options_cannot_be_built_wrong_in_python_either() -> None:
    for wrong in (
        lambda: Clip(low=-1),
        lambda: Kl(coefficient=-1),
        lambda: Kl(coefficient=1, place="los"),  # type: ignore[arg-type]
        lambda: Correction(cap=0),
    ):
        with pytest.raises(ValueError, match="must be"):
            wrong()
    with pytest.raises(ValidationError):
        ALGORITHMS["grpo"].model_validate(["clip"])
    with pytest.raises(ValidationError):
        ALGORITHMS["grpo"](clip={"low": -1})  # type: ignore[call-arg]
