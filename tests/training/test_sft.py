"""A warm start end to end: a small model learns a way of speaking that it has never seen."""

import io
import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from tests.some_now import some_now
from torch import Tensor
from typing_extensions import Buffer

from agentfly import Agent, SamplingParams
from agentfly.config.sft_settings import SftSettings
from agentfly.errors import ConfigError
from agentfly.observe import RunProgress, Trackers
from agentfly.training.checkpoint import Checkpoints
from agentfly.training.supervised.sft import SftResult, ctrl_c_waits, sft
from agentfly.training.supervised.supervised_learner import BatchOrder, SupervisedLearner
from agentfly.types import Sample, Seed

NAMES = (
    *("Ann", "Bob", "Cara", "Dan", "Eve", "Finn", "Gus", "Hal", "Ida", "Jan"),
    *("Kit", "Lea", "Max", "Ned", "Ola", "Pia", "Rex", "Sue", "Tom", "Una"),
)


def rows() -> list[dict[str, Any]]:
    return [
        {
            "messages": [
                {"role": "user", "content": f"Greet {name}."},
                {"role": "assistant", "content": f"Ahoy, {name}!"},
            ]
        }
        for name in NAMES
    ]


def with_greetings(folder: Path) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows())
    (folder / "greetings.jsonl").write_text(text)
    return folder


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return with_greetings(tmp_path)


def run(base: Path, *, resume: bool = False, name: str = "warm", **tables: Any) -> SftResult:
    train = {"lr": 3e-3, "epochs": 8, "conversations_per_step": 6, "evaluate_every": 10}
    settings = {
        "name": name,
        "folder": str(base / "runs"),
        "model": {"name": "tiny", "device": "cpu", "precision": "float32"},
        "data": {"files": ["greetings.jsonl"], "held_out_share": 0.2},
        "track": {"trackers": []},
        **tables,
        "train": {**train, **tables.get("train", {})},
    }
    progress = RunProgress(quiet=True)
    return sft(SftSettings.model_validate(settings), resume=resume, base=base, progress=progress)


async def test_a_model_learns_to_speak_as_it_was_shown(base: Path) -> None:
    result = run(base)
    before, *_, after = result.held_out_losses
    assert after < 0.5 * before
    assert result.steps == 24  # 16 conversations, 6 a step, 8 times over
    assert [record.step for record in result.metrics] == list(range(25))
    measured = [r.step for r in result.metrics if "eval/loss" in r.metrics]
    assert measured == [0, 10, 20, 24]
    async with Agent(
        result.model, sampling=SamplingParams(temperature=0.0, max_tokens=16)
    ) as agent:
        told = await agent.run(["Greet Zoe."])
    # Ends by itself: the end token was learned too.
    assert told.trajectories[0].final_response.startswith("Ahoy,")
    assert told.trajectories[0].final_response.endswith("!")
    assert told.trajectories[0].stop == "answered"


ENOUGH: Mapping[str, Any] = {"epochs": 60, "evaluate_every": 2, "target_exact_turns": 0.2}


@pytest.fixture
def one_answer(base: Path) -> Path:
    """Conversations that differ only in the question, so that held-out answers can be exact."""
    file = base / "greetings.jsonl"
    file.write_text(re.sub("Ahoy, [A-Z][a-z]+!", "Ahoy there!", file.read_text()))
    return base


def exact_turns(result: SftResult) -> list[float]:
    measured = [record.metrics.get("eval/exact_turns_min") for record in result.metrics]
    return [share for share in measured if share is not None]


def test_it_stops_where_held_out_turns_are_imitated_well_enough(one_answer: Path) -> None:
    result = run(one_answer, train=ENOUGH)
    *before, last = exact_turns(result)
    assert max(before) < 0.2 <= last
    assert result.steps == result.metrics[-1].step < 180
    assert (result.model / "model.safetensors").is_file()


def test_a_run_that_was_killed_at_its_target_learns_no_more(one_answer: Path) -> None:
    def die(*_: object) -> None:
        raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("agentfly.training.supervised.sft.export_model", die)
        with pytest.raises(Killed):
            run(one_answer, train=ENOUGH)
    reached = max(int(name.removeprefix("step_")) for name in checkpoints(one_answer))
    assert reached < 180
    assert run(one_answer, train=ENOUGH, resume=True).steps == reached


def test_a_target_that_is_never_measured_is_refused(base: Path) -> None:
    with pytest.raises(ConfigError, match="held-out conversations, and there are none"):
        run(base, train={"evaluate_every": 0, "target_exact_turns": 0.5})
    assert not (base / "runs").exists()


def test_nothing_is_learned_with_a_learning_rate_of_zero(base: Path) -> None:
    before, *_, after = run(base, train={"lr": 0.0, "epochs": 1}).held_out_losses
    assert after == pytest.approx(before, abs=1e-6)


SHORT: Mapping[str, Any] = {"train": {"epochs": 2, "warmup_steps": 2}, "checkpoint": {"every": 2}}
"""Six steps, of which the even ones leave a checkpoint."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The weights of a short run that nothing has cut."""
    result = run(with_greetings(tmp_path_factory.mktemp("whole")), **SHORT)
    return load_file(result.model / "model.safetensors")


class Killed(BaseException):
    """Nobody waits for it, and nobody answers."""


def cut(base: Path, owner: type, method: str, when: Callable[..., None]) -> None:
    """Run until `when` ends it, called before each call of a method with the same arguments."""
    original = getattr(owner, method)

    def watched(*args: Any, **more: Any) -> Any:
        when(*args)
        return original(*args, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(owner, method, watched)
        with pytest.raises((KeyboardInterrupt, Killed)):
            run(base, **SHORT)
    assert not (base / "runs" / "warm" / "model").exists()


def checkpoints(base: Path) -> list[str]:
    return sorted(path.name for path in (base / "runs" / "warm" / "checkpoints").glob("*"))


def resumed_as(whole: Mapping[str, Tensor], base: Path) -> None:
    resumed = run(base, **SHORT, resume=True)
    assert [record.step for record in resumed.metrics] == list(range(7))
    ours = load_file(resumed.model / "model.safetensors")
    assert all(ours[name].equal(whole[name]) for name in whole)


def die_in_log(_: Trackers, metrics: object, step: int) -> None:
    if step == 4:
        raise Killed


def die_in_first_learn(learner: SupervisedLearner, _: object) -> None:
    if learner.step == 0:
        raise Killed


def die_in_save(_: Checkpoints, step: int, write: object) -> None:
    if step == 4:
        raise Killed


@pytest.mark.parametrize(
    ("owner", "method", "when", "left"),
    some_now(
        [
            (Checkpoints, "save", die_in_save, ["step_1", "step_2"]),
            (SupervisedLearner, "learn", die_in_first_learn, []),
            (Trackers, "log", die_in_log, ["step_1", "step_2"]),
        ],
        every=3,
    ),
)
def test_killed_anywhere_it_loses_and_repeats_no_line(
    whole: dict[str, Tensor],
    base: Path,
    owner: type,
    method: str,
    when: Callable[..., None],
    left: list[str],
) -> None:
    cut(base, owner, method, when)
    assert checkpoints(base) == left
    resumed_as(whole, base)
    with pytest.raises(ConfigError, match="is done, and its model is in"):
        run(base, resume=True)


def press(times: int) -> Callable[..., None]:
    def in_third_step(learner: SupervisedLearner, _: object) -> None:
        for _ in range(times if learner.step == 2 else 0):
            os.kill(os.getpid(), signal.SIGINT)

    return in_third_step


def test_ctrl_c_leaves_the_last_whole_step(whole: dict[str, Tensor], base: Path) -> None:
    cut(base, SupervisedLearner, "learn", press(1))
    assert checkpoints(base) == ["step_2", "step_3"], "the step under way was seen through"
    resumed_as(whole, base)


def test_ctrl_c_pressed_twice_saves_no_half_step(whole: dict[str, Tensor], base: Path) -> None:
    cut(base, SupervisedLearner, "learn", press(2))
    assert checkpoints(base) == ["step_1", "step_2"]
    resumed_as(whole, base)


def test_a_run_is_resumed_with_what_it_was_started_with(base: Path) -> None:
    cut(base, SupervisedLearner, "learn", press(1))
    with pytest.raises(ConfigError, match=r"train.lr: 0.003 then, 0.5 now"):
        run(base, resume=True, **{**SHORT, "train": {**SHORT["train"], "lr": 0.5}})
    file = base / "greetings.jsonl"
    file.write_text(file.read_text().replace("Ahoy, Bob!", "Ahoy, Rob!"))
    with pytest.raises(ConfigError, match="started with other conversations than its files give"):
        run(base, resume=True, **SHORT)


def test_adapters_are_merged_into_a_plain_model(base: Path) -> None:
    model = {"name": "tiny", "device": "cpu", "precision": "float32", "lora": {"rank": 4}}
    result = run(base, model=model, train={"epochs": 1, "lr": 1e-2})
    before, *_, after = result.held_out_losses
    assert after < before
    assert (result.model / "model.safetensors").is_file()
    assert not (result.model / "adapter_config.json").exists()


def test_the_best_checkpoint_is_the_one_with_the_lowest_held_out_loss(base: Path) -> None:
    tables: dict[str, Any] = {"train": {"epochs": 1}, "checkpoint": {"every": 1, "keep": 1}}
    tables["train"]["evaluate_every"] = 1
    result = run(base, **tables)
    kept = sorted(path.name for path in (result.folder / "checkpoints").iterdir())
    losses = result.held_out_losses[1:]
    best = losses.index(min(losses)) + 1
    assert kept == sorted({f"step_{best}", f"step_{result.steps}"})


def test_a_mistake_in_the_data_leaves_no_run_behind(base: Path) -> None:
    with pytest.raises(ConfigError, match="no file"):
        run(base, data={"files": ["greeting.jsonl"]})
    with pytest.raises(ConfigError, match=r"train\.warmup_steps is 99, but 16 conversations"):
        run(base, train={"warmup_steps": 99})
    with pytest.raises(ConfigError, match="mask policy"):
        run(base, data={"files": ["greetings.jsonl"], "mask": "all_sampeld"})
    assert not (base / "runs").exists()


def test_every_epoch_goes_over_every_sample_once() -> None:
    samples = [_sample(i) for i in range(5)]
    plan = BatchOrder(samples=samples, per_step=2, epochs=3, seed=Seed(1))
    assert plan.steps == 9
    lessons = [[s.token_ids[0] for s in plan.batch(step)] for step in range(1, 10)]
    epochs = [list(chain.from_iterable(lessons[i : i + 3])) for i in (0, 3, 6)]
    assert all(sorted(epoch) == [0, 1, 2, 3, 4] for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) > 1, "each epoch has its own order"
    assert [len(batch) for batch in lessons[:3]] == [2, 2, 1]


def _sample(token: int) -> Sample:
    return Sample(
        token_ids=(token,),
        mask=(True,),
        logprobs=(0.0,),
        versions=(0,),
        turn_index=(0,),
        temperature=1.0,
        chain_id=f"t/0/{token}",
        group_id="t/0",
    )


class _InterruptedWrite(io.RawIOBase):
    """A stream into whose first write Ctrl-C comes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:
        if not self.written:
            signal.raise_signal(signal.SIGINT)
        self.written.append(bytes(data))
        return len(self.written[-1])


def test_ctrl_c_in_the_middle_of_a_write_waits_for_the_end_of_the_step(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = _InterruptedWrite()
    stream = io.TextIOWrapper(io.BufferedWriter(raw))
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, stream)
    with pytest.raises(KeyboardInterrupt), ctrl_c_waits():
        print("step 1", flush=True)
    assert raw.written == [b"step 1\n"]
    assert "stopping after this step" in capfd.readouterr().err
