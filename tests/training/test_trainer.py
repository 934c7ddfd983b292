"""A whole run, small enough to see everything that it does."""

import asyncio
import errno
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from tests.some_now import some_now
from tests.training.small_trainer import HELD_OUT, ROWS, agent, letters, one_source, settings, train

from agentfly import Agent, Limits, Source, Trainer, group_reward, reward
from agentfly.chat import TemplateRenderer, per_turn
from agentfly.config import EngineSettings, RunSettings, SettingsError
from agentfly.engines.local import LocalEngine
from agentfly.engines.vllm import VllmEngine
from agentfly.errors import CallbackError, ConfigError, RunError
from agentfly.models import load_model, resolve_model
from agentfly.observe import RunProgress, read_metrics, read_trajectories, require_documented
from agentfly.observe.recorded_run import RecordedRun
from agentfly.observe.run_list import describe_run
from agentfly.runtime.journal import Journal
from agentfly.tasks import Ledger
from agentfly.training import Policy, StoppedBy
from agentfly.training.learner.step_metrics import METRICS as LEARNER_METRICS
from agentfly.training.task_mix import for_run
from agentfly.types import Engine, SamplingParams, Seed, Task, Trajectory, Turn

TWINS = [Task.from_row({"id": "twin", "question": f"Say {i}."}) for i in range(2)]


def test_a_run_is_a_folder_of_plain_files(tmp_path: Path) -> None:
    result = train(one_source(), chosen=settings(tmp_path))
    assert (result.steps, result.stopped_by) == (2, StoppedBy.STEPS)
    assert result.checkpoint.name == "step_2"
    assert (result.model / "model.safetensors").exists()
    chains = result.folder / "trajectories"
    assert len(list(read_trajectories(chains / "step_1.jsonl"))) == 6
    assert [len(list(read_trajectories(chains / f"eval_{n}.jsonl"))) for n in (0, 1, 2)] == [4] * 3
    names = {name for record in result.metrics for name in record.metrics}
    require_documented(names, {f"train/{name}": text for name, text in LEARNER_METRICS.items()})
    assert {"reward/mean", "eval/reward", "train/loss", "time/step"} <= names


def test_the_best_checkpoint_is_the_one_with_the_highest_held_out_reward(tmp_path: Path) -> None:
    tables = {"train": {"steps": 4, "lr": 1e-2}, "checkpoint": {"every": 1, "keep": 1}}
    result = train(one_source(), chosen=settings(tmp_path, **tables))
    rewards = [r.metrics["eval/reward"] for r in result.metrics if "eval/reward" in r.metrics][1:]
    # Of equals the newer one.
    best = max(range(4), key=lambda index: (rewards[index], index)) + 1
    assert result.best == result.folder / "checkpoints" / f"step_{best}"


def test_the_best_step_has_a_checkpoint_between_two_that_are_due(tmp_path: Path) -> None:
    by_evaluation = iter([0.1, 0.9, 0.9, 0.3])

    @reward
    def rising_and_falling(final_response: str, task: Task) -> float:
        """Score one held-out chain in each evaluation; the others differ by their letters."""
        return next(by_evaluation) if task.id == "held0" else len(set(final_response)) / 10

    source = Source(agent=agent(rising_and_falling), tasks=ROWS, eval_tasks=HELD_OUT[:1])
    chosen = settings(
        tmp_path,
        train={"steps": 3, "lr": 1e-3},
        eval={"every": 1, "num_chains": 1},
        checkpoint={"every": 100, "keep": 1},
    )
    result = train(source, chosen=chosen)
    assert result.best is not None
    assert result.best.name == "step_2", "of equals the newest"
    assert result.checkpoint.name == "step_3"
    shown = describe_run(RecordedRun(result.folder)).best
    assert shown is not None
    assert shown.step == 2


@pytest.mark.parametrize(("at_end", "best"), [(True, "step_2"), (False, None)])
def test_what_is_measured_after_the_last_step_counts(
    tmp_path: Path, at_end: bool, best: str | None
) -> None:
    evaluate = {"every": 0, "at_start": False, "at_end": at_end, "num_chains": 1}
    chosen = settings(tmp_path, eval=evaluate, checkpoint={"every": 1})
    result = train(one_source(), chosen=chosen)
    assert (result.best and result.best.name) == best


@pytest.mark.parametrize("kind", some_now(["trajectory", "event", "ledger", "metrics"], every=2))
def test_a_full_disk_is_reported_as_such_whatever_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    append, left = Journal.append, {"trajectory": 4, "event": 8, "ledger": 5, "metrics": 1}[kind]

    def full(journal: Journal, record: Mapping[str, Any]) -> None:
        nonlocal left
        left -= journal._head["kind"] == kind
        if left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(journal, record)

    chosen = settings(tmp_path, eval={"every": 0, "at_start": False})
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "append", full)
        with pytest.raises(RunError, match=r"the disk of .*small is full. Free some.*--resume"):
            train(one_source(), chosen=chosen)
    result = train(one_source(), chosen=chosen, resume=True)
    steps = [record.step for record in result.metrics if "reward/mean" in record.metrics]
    assert steps == [1, 2]


def test_a_merged_model_is_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapted = {"name": "tiny-random", "lora": {"rank": 2}}
    chosen = settings(
        tmp_path, model=adapted, train={"steps": 1}, eval={"every": 0, "at_start": False}
    )

    def half(policy: Policy, folder: Path, *_: object) -> None:
        folder.mkdir()
        (folder / "config.json").write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Policy, "export", half)
        with pytest.raises(RunError, match="is full"):
            train(one_source(), chosen=chosen)
    assert not (tmp_path / "small" / "model").exists()
    result = train(one_source(), chosen=chosen, resume=True)
    assert (result.model.name, result.steps) == ("model", 1)
    assert (result.model / "model.safetensors").exists()


def test_a_finished_run_can_be_given_more_steps_and_nothing_else(tmp_path: Path) -> None:
    train(one_source(), chosen=settings(tmp_path))
    again = train(one_source(), chosen=settings(tmp_path), resume=True)
    assert again.steps == 2
    assert len([r for r in again.metrics if "eval/reward" in r.metrics]) == 3, "not measured twice"
    more = settings(tmp_path, train={"steps": 3, "lr": 1e-3})
    assert train(one_source(), chosen=more, resume=True).steps == 3
    with pytest.raises(ConfigError, match=r"train.lr: 0.001 then, 0.5 now"):
        train(one_source(), chosen=settings(tmp_path, train={"lr": 0.5}), resume=True)
    with pytest.raises(ConfigError, match="--resume"):
        train(one_source(), chosen=settings(tmp_path))


def test_a_resumed_run_may_have_another_bound_on_staleness(tmp_path: Path) -> None:
    """Ctrl-C in step 2 leaves groups that were sampled ahead; the synchronous run samples again."""

    def chosen(bound: int) -> RunSettings:
        rollout = {"tasks_per_step": 2, "num_chains": 3, "max_staleness": bound}
        evaluation = {"every": 0, "at_start": False, "at_end": False}
        steps = {"steps": 3, "lr": 1e-3}
        return settings(tmp_path, rollout=rollout, train=steps, eval=evaluation)

    class Interrupting(RunProgress):
        def step_done(self, step: int, metrics: Mapping[str, float]) -> None:
            if step == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(one_source(), chosen=chosen(2), progress=Interrupting(quiet=True))
    result = train(one_source(), chosen=chosen(0), resume=True)
    assert result.steps == 3
    assert result.metrics[-1].metrics["staleness/max"] == 0.0


def test_the_target_stops_a_run_also_one_that_is_resumed(tmp_path: Path) -> None:
    @reward
    def sure(final_response: str) -> float:
        """Be content with anything."""
        return 1.0 + 0 * len(final_response)

    chosen = settings(tmp_path, train={"steps": 9, "target_reward": 1.0, "target_window": 2})
    result = train(one_source(sure), chosen=chosen)
    assert (result.steps, result.stopped_by) == (2, StoppedBy.TARGET)
    assert train(one_source(sure), chosen=chosen, resume=True).steps == 2


def interrupted(chosen: RunSettings, when: Callable[[int], bool]) -> None:
    """Press Ctrl-C when so many chains have been scored."""
    scored = 0

    @reward(name="letters")
    def counting(final_response: str) -> float:
        nonlocal scored
        scored += 1
        if when(scored):
            os.kill(os.getpid(), signal.SIGINT)
        return sum(letter in "aeiou" for letter in final_response) / 10

    with pytest.raises(KeyboardInterrupt):
        train(one_source(counting), chosen=chosen)


def test_ctrl_c_keeps_whole_steps_and_finished_groups(tmp_path: Path) -> None:
    # 4 held-out chains, 6 of step 1, 4 held-out; then the second group of step 2 is cut.
    chosen = settings(tmp_path, rollout={"tasks_per_step": 2, "num_chains": 3, "max_concurrent": 1})
    interrupted(chosen, lambda scored: scored == 4 + 6 + 4 + 4)
    folder = tmp_path / "small"
    kept = list(read_trajectories(folder / "checkpoints" / "step_1" / "finished.jsonl"))
    assert len(kept) == 3
    result = train(one_source(), chosen=chosen, resume=True)
    again = list(read_trajectories(result.folder / "trajectories" / "step_2.jsonl"))
    assert [t for t in again if t.group_id == kept[0].group_id] == kept
    steps = [record.step for record in result.metrics if "reward/mean" in record.metrics]
    assert steps == [1, 2]


def test_ctrl_c_in_the_last_evaluation_leaves_no_dead_end(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    interrupted(chosen, lambda scored: scored == 4 + 6 + 4 + 6 + 1)
    result = train(one_source(), chosen=chosen, resume=True)
    measured = [record.step for record in result.metrics if "eval/reward" in record.metrics]
    assert (result.steps, measured) == (2, [0, 1, 2])


def test_sources_keep_their_own_agents_and_shares(tmp_path: Path) -> None:
    @reward
    def short(final_response: str) -> float:
        """Another reward."""
        return -len(final_response) / 10

    @group_reward
    def first(final_responses: list[str]) -> list[float]:
        """Reward the first chain of a group."""
        return [1.0, *[0.0] * (len(final_responses) - 1)]

    plain = Source(name="plain", agent=agent(), tasks=ROWS[:3], weight=1)
    other = [{"id": f"o{i}", "question": f"Tell {i}."} for i in range(3)]
    grouped = Source(name="grouped", agent=agent(short, group_reward=first), tasks=other, weight=3)
    chosen = settings(tmp_path, rollout={"tasks_per_step": 4, "num_chains": 2})
    result = train(plain, grouped, chosen=chosen)
    chains = list(read_trajectories(result.folder / "trajectories" / "step_1.jsonl"))
    by_source = {
        name: [c for c in chains if c.task.source == name] for name in ("plain", "grouped")
    }
    assert {name: len(own) for name, own in by_source.items()} == {"plain": 2, "grouped": 6}
    assert all("first" not in score_parts(chain) for chain in by_source["plain"])
    assert all("first" in score_parts(chain) for chain in by_source["grouped"])
    names = result.metrics[0].metrics
    assert {"source/plain/reward/mean", "source/grouped/reward/mean"} <= names.keys()


def test_sources_may_share_their_rows(tmp_path: Path) -> None:
    @reward
    def short(final_response: str) -> float:
        """Another reward."""
        return -len(final_response) / 10

    alone = [{"id": "alone", "question": "Say nothing."}]
    sources = (
        Source(name="long", agent=agent(), tasks=ROWS[:2], eval_tasks=HELD_OUT),
        Source(name="short", agent=agent(short), tasks=[*ROWS[:2], *alone], eval_tasks=HELD_OUT),
    )
    rollout = {"tasks_per_step": 6, "num_chains": 2}
    result = train(*sources, chosen=settings(tmp_path, rollout=rollout))
    chains = list(read_trajectories(result.folder / "trajectories" / "step_1.jsonl"))
    assert {(c.task.source, c.task.id) for c in chains} == {
        ("long", "long/row0"),
        ("long", "long/row1"),
        ("short", "short/row0"),
        ("short", "short/row1"),
        ("short", "alone"),
    }
    held_out = list(read_trajectories(result.folder / "trajectories" / "eval_1.jsonl"))
    assert len({c.group_id for c in held_out}) == 4
    more = settings(tmp_path, rollout=rollout, train={"steps": 3, "lr": 1e-3})
    assert train(*sources, chosen=more, resume=True).steps == 3


def test_tasks_of_other_sources_are_leaks_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sources = [
        Source(name="a", agent=agent(), tasks=ROWS, eval_tasks=HELD_OUT),
        Source(name="b", agent=agent(), tasks=ROWS, eval_tasks=ROWS[:2]),
    ]
    with caplog.at_level(logging.WARNING):
        Trainer(sources, settings(tmp_path))
    assert "2 of the held-out tasks are trained on too, for example 'row0'" in caplog.text


def score_parts(chain: Trajectory) -> set[str]:
    assert chain.score is not None
    return set(chain.score.parts)


def test_a_run_ends_when_too_many_chains_fail(tmp_path: Path) -> None:
    @reward
    def broken(final_response: str) -> float:
        """Fail always."""
        raise ValueError(f"no score for {final_response!r}")

    chosen = settings(tmp_path, eval={"at_start": False}, rollout={"num_chains": 2, "retries": 0})
    with pytest.raises(RunError, match=r"16 of 16 chains failed.*RewardError 16.*no score for"):
        train(one_source(broken), chosen=chosen)


DEAD_SERVER = "http://127.0.0.1:9"
SERVED = EngineSettings(name="vllm", urls=(DEAD_SERVER,))


def speaking_through(engine: Engine) -> Agent:
    renderer = TemplateRenderer.from_folder(resolve_model("tiny-random"))
    return Agent(engine, renderer=renderer, reward=letters)


def tiny_random() -> Any:
    return load_model(resolve_model("tiny-random"), dtype=torch.float32, device="cpu")


def other_renderer() -> TemplateRenderer:
    """Render with a tokenizer of the same size in which two tokens have changed places."""
    with TemporaryDirectory() as there:
        folder = Path(shutil.copytree(resolve_model("tiny-random"), there, dirs_exist_ok=True))
        tokenizer = json.loads((folder / "tokenizer.json").read_text())
        vocabulary = tokenizer["model"]["vocab"]
        swap = {300: 301, 301: 300}
        swapped = {token: swap.get(number, number) for token, number in vocabulary.items()}
        tokenizer["model"]["vocab"] = swapped
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        return TemplateRenderer.from_folder(folder)


class Opaque:
    """A renderer that does not say what it encodes with."""

    def __init__(self, inner: TemplateRenderer) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "tokenizer":
            raise AttributeError(name)
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: Source(agent=agent(None), tasks=ROWS), "has no reward"),
        (lambda: Source(agent=agent(), tasks=[]), "has no tasks"),
        (lambda: replace(one_source(), agent=Agent("tiny", reward=letters)), "name the same model"),
        (
            lambda: replace(one_source(), agent=speaking_through(VllmEngine(DEAD_SERVER))),
            "source 'default' has an engine of its own, a VllmEngine, which training would not",
        ),
        (
            lambda: replace(one_source(), agent=speaking_through(LocalEngine(tiny_random()))),
            "has an engine of its own, a LocalEngine",
        ),
        (
            lambda: replace(one_source(), agent=agent(engine=SERVED)),
            "chooses an engine, 'vllm', which training would not use.* the settings name, 'local'",
        ),
        (
            lambda: replace(one_source(), agent=agent(renderer=other_renderer())),
            "has the tokenizer of another model: id 300 is .* there, and .* to the model",
        ),
        (
            lambda: replace(one_source(), agent=agent(renderer=Opaque(other_renderer()))),
            "the renderer has the tokenizer of another model: id 300",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path, source: Callable[[], Source], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        train(source(), chosen=settings(tmp_path))


@pytest.mark.parametrize(
    ("tasks", "wrong", "words"),
    [
        (ROWS, {"name": "tiny-random", "lora": {"targets": ["nowhere"]}}, "nowhere"),
        (TWINS, {"name": "tiny-random"}, "two different tasks have the id"),
    ],
)
def test_a_mistake_leaves_no_run_behind(
    tmp_path: Path, tasks: list[Any], wrong: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        train(replace(one_source(), tasks=tasks), chosen=settings(tmp_path, model=wrong))
    mended = settings(tmp_path, train={"steps": 1}, eval={"every": 0, "at_start": False})
    assert train(one_source(), chosen=mended).steps == 1


def test_what_this_machine_lacks_is_reported_before_anything_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setitem(sys.modules, "wandb", None)
    lacking = {"model": {"name": "tiny-random", "device": "cuda"}, "track": {"trackers": ["wandb"]}}
    with pytest.raises(ConfigError, match=r"(?s)model.device: torch finds no.*'wandb' is not inst"):
        Trainer(one_source(), settings(tmp_path, **lacking))


def test_an_update_that_runs_out_of_memory_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def greedy(*_: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: no")

    monkeypatch.setattr("agentfly.training.learner.actor.Actor.update", greedy)
    with pytest.raises(RunError, match=r"train.tokens_per_microbatch = 4096.*gradient_chec.*--res"):
        train(one_source(), chosen=settings(tmp_path, eval={"every": 0, "at_start": False}))


def test_a_group_needs_two_chains(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"rollout.num_chains: grpo compares the chains of a task"
    ):
        Trainer(one_source(), settings(tmp_path, rollout={"num_chains": 1}))


@pytest.mark.parametrize("table", [{"minibatches": 2}, {"epochs": 2}])
def test_the_plain_policy_gradient_takes_one_update_of_a_step(
    tmp_path: Path, table: dict[str, int]
) -> None:
    plain = {"name": "reinforce"}
    with pytest.raises(ConfigError, match=r"(?s)train.minibatches: reinforce has the plain.*Got 2"):
        Trainer(one_source(), settings(tmp_path, algorithm=plain, train=table))
    Trainer(one_source(), settings(tmp_path, algorithm={"name": "grpo"}, train=table))
    Trainer(one_source(), settings(tmp_path, algorithm=plain))


@pytest.mark.parametrize(
    ("sampling", "words"),
    [
        ({"top_p": 0.9}, r"samples with top_p=0.9: training needs tokens drawn from the model's"),
        ({"top_k": 5}, "samples with top_k=5"),
        ({"min_p": 0.1, "top_k": 3}, "samples with top_k=3, min_p=0.1"),
        ({"temperature": 0.0}, "samples greedily"),
    ],
)
def test_sampling_from_another_distribution_is_refused(
    tmp_path: Path, sampling: dict[str, Any], words: str
) -> None:
    choosy = Agent("tiny-random", reward=letters, sampling=SamplingParams(**sampling))
    with pytest.raises(ConfigError, match=words):
        Trainer(replace(one_source(), agent=choosy), settings(tmp_path))


def test_held_out_tasks_that_are_trained_on_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        Trainer(Source(agent=agent(), tasks=ROWS, eval_tasks=ROWS[:1]), settings(tmp_path))
    assert "1 of the held-out tasks are trained on too, for example 'row0'" in caplog.text


def test_settings_that_an_agent_of_ones_own_ignores_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Trainer(one_source(), settings(tmp_path, rollout={"max_tokens": 99, "max_turns": 1}))
    (record,) = caplog.records
    assert "rollout.max_tokens = 99 changes nothing: the agent of source 'default'" in caplog.text
    assert record.levelname == "WARNING"


def test_what_an_agent_does_not_say_the_settings_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    silent = Source(agent=Agent(reward=letters), tasks=ROWS)
    short = {"max_tokens": 3, "max_turns": 1, "temperature": 0.7}
    chosen = settings(tmp_path, rollout={"tasks_per_step": 2, "num_chains": 2, **short})
    result = train(silent, chosen=chosen)
    chains = read_trajectories(result.folder / "trajectories" / "step_1.jsonl")
    turns = [turn for chain in chains for turn in chain.turns]
    assert max(len(turn.completion.token_ids) for turn in turns if turn.completion) == 3
    assert {turn.temperature for turn in turns} == {0.7}
    assert "changes nothing" not in caplog.text


def test_a_context_length_that_an_agent_ignores_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limited = Source(agent=Agent(reward=letters, limits=Limits(max_turns=1)), tasks=ROWS)
    Trainer(limited, settings(tmp_path, rollout={"context_length": 99}))
    assert "rollout.context_length = 99 changes nothing" in caplog.text


def test_what_an_agent_says_itself_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = Agent(reward=letters, max_turns=2)
    trainer = Trainer(
        Source(agent=own, tasks=ROWS),
        settings(tmp_path, rollout={"max_turns": 5, "chain_seconds": 9.0}),
    )
    assert "rollout.max_turns = 5 changes nothing" in caplog.text
    assert "chain_seconds" not in caplog.text
    (source,) = for_run(trainer.task_mix, trainer.parts.settings).sources
    assert (source.agent.limits.max_turns, source.agent.limits.seconds) == (2, 9.0)


def test_an_agent_without_a_model_says_so_when_it_is_run() -> None:
    with pytest.raises(ConfigError, match=r"has no model to run: name one, .*to a Trainer"):
        Agent(reward=letters).run_sync("Hi")


def test_all_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    sources = [
        Source(agent=agent(None), tasks=ROWS),
        Source(agent=agent(), tasks=tmp_path / "nowhere.jsonl"),
    ]
    chosen = settings(tmp_path, rollout={"num_chains": 1}, model={"name": "tinny"})
    with pytest.raises(SettingsError) as caught:
        Trainer(sources, chosen)
    assert [problem.key for problem in caught.value.problems] == [
        "source",
        "source.0",
        "source.1.tasks",
        "model.name",
        "rollout.num_chains",
    ]


async def test_a_trainer_runs_inside_an_event_loop_too(tmp_path: Path) -> None:
    trainer = Trainer(one_source(), settings(tmp_path), progress=RunProgress(quiet=True))
    result = await trainer.run_async()
    assert result.steps == 2
    assert asyncio.get_running_loop().is_running()


def test_dynamic_sampling_replaces_groups_without_spread(tmp_path: Path) -> None:
    @reward
    def sometimes(final_response: str, task: Task) -> float:
        """Give even rows no spread."""
        even = int(task.id.removeprefix("row")) % 2 == 0
        return 1.0 if even else sum(map(ord, final_response)) % 7

    chosen = settings(tmp_path, algorithm={"name": "dapo"}, eval={"at_start": False, "every": 0})
    result = train(Source(agent=agent(sometimes), tasks=ROWS), chosen=chosen)
    records = [r.metrics for r in read_metrics(result.folder / "metrics.jsonl")]
    assert all(metrics["train/chains_used"] == 6 for metrics in records)
    assert sum(metrics["chains/left_out_groups"] for metrics in records) > 0
    tasks = [Task.from_row(row) for row in ROWS]
    with Ledger.open(result.folder / "ledger.jsonl", tasks, seed=Seed(0)) as ledger:
        assert ledger.progress.trained == 4
        assert ledger.progress.abandoned > 0


def test_a_wrong_mask_names_policy_chain_and_step(tmp_path: Path) -> None:
    def short(turn: Turn) -> list[bool]:
        return [True]

    with pytest.raises(ConfigError) as caught:
        train(one_source(), chosen=settings(tmp_path), mask=per_turn(short))
    assert re.match(
        rf"step 1: the mask policy {__name__}:short, called with chain row\d/0/\d, returned a "
        r"wrong mask: turn 0 has \d sampled tokens, but the mask policy gave 1 bools",
        str(caught.value),
    )


def test_a_mask_that_raises_names_policy_chain_and_step(tmp_path: Path) -> None:
    def broken(turns: Sequence[Turn]) -> list[bool]:
        raise KeyError("boom")

    said = r"step 1: the mask policy .*:broken, called with chain row.*, raised KeyError: 'boom'"
    with pytest.raises(CallbackError, match=said):
        train(one_source(), chosen=settings(tmp_path), mask=broken)
