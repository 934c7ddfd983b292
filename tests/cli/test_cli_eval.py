"""`agentfly eval` against a real HTTP server: what is attempted, measured, kept and said."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.chat_server import ChatServer, chat_server, right, sums
from tests.observe.finished_groups import scored
from tests.observe.recorded_runs import record_run
from typer.testing import CliRunner, Result

from agentfly import Agent, ScriptedEngine
from agentfly.cli.eval_sources import Parts, sources_for
from agentfly.cli.main import app
from agentfly.config import EngineSettings, SourceSettings
from agentfly.config.evaluation_settings import (
    AttemptSettings,
    EvaluatedCheckpoint,
    EvaluatedModelSettings,
    EvaluationSettings,
)
from agentfly.engines import EngineSpec
from agentfly.errors import ConfigError
from agentfly.evaluation import EvaluatedSource
from agentfly.evaluation import evaluate as evaluate_sources
from agentfly.evaluation.checkpoint_names import find_checkpoints
from agentfly.observe.recorded_run import RecordedRun, find_run
from agentfly.resources import Pooling
from agentfly.tasks import load_tasks
from agentfly.types import Seed, Step, Task

NAME = "eval-v1-sums"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in sums(20)))
    return tmp_path


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with chat_server(lambda text, n: right(text, n) if n % 2 else "No idea.") as server:
        yield server


def agentfly(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


def evaluate(server: ChatServer, *arguments: str) -> Result:
    return agentfly("eval", server.url, "sums.jsonl", "--reward", "numeric_match", *arguments)


def numbers(name: str = NAME) -> dict[str, Any]:
    """All numbers of an evaluation but the times, which no two evaluations share."""
    (checkpoint,) = json.loads(Path("runs", name, "evaluation.json").read_text())["checkpoints"]
    rows: list[dict[str, Any]] = checkpoint["rows"]
    return {row["title"]: {**row, "seconds": None} for row in rows}


def test_what_is_measured_and_where_it_is_kept(server: ChatServer) -> None:
    done = evaluate(server, "-n", "2", "--by", "level", "--sampled-price", "1000000")
    assert done.exit_code == 0, done.output
    whole = numbers()["all"]
    assert (whole["tasks"], whole["chains"], whole["reward"]["value"]) == (20, 40, 0.5)
    assert whole["pass@k"]["2"]["value"] == 1.0
    assert whole["pass^k"]["2"]["value"] == 0.0
    assert whole["pass^k"]["2"]["high"] == pytest.approx(0.161, abs=0.001)  # Wilson, 0 of 20
    assert numbers()["level = even"]["tasks"] == 10
    assert "40 chains stopped by: answered 40" in done.output
    assert "400 prompt tokens, 120 sampled, which cost 120" in done.output
    run = find_run(NAME)
    assert run.settings["model"]["name"] == "sums-1", "the only model that the server lists"
    assert run.settings["seed"] == 0
    assert "finished" in agentfly("runs", "list").output
    assert "What is 3+4?" in agentfly("show", NAME).output


def test_what_a_kill_left_is_continued_and_gives_the_same_numbers(server: ChatServer) -> None:
    assert evaluate(server, "-n", "2").exit_code == 0
    whole, asked = numbers(), server.requests
    packed = Path("runs", NAME, "trajectories", "eval_0.jsonl.gz")
    lines = gzip.decompress(packed.read_bytes()).splitlines(keepends=True)
    packed.unlink()
    Path("runs", NAME, "evaluation.json").unlink()
    # Killed after seven chains, in the middle of a group and of a line.
    packed.with_suffix("").write_bytes(b"".join(lines[:7]) + lines[7][:50])
    assert evaluate(server, "-n", "2").exit_code == 2, "another one of this name is refused"
    done = evaluate(server, "-n", "2", "--resume")
    assert done.exit_code == 0, done.output
    assert "3 of 20 tasks are there already" in done.output
    assert server.requests - asked == 34
    assert numbers() == whole
    refused = evaluate(server, "-n", "3", "--resume")
    assert (refused.exit_code, "attempts.num_chains: 2 then, 3 now" in refused.output) == (2, True)


def test_an_agent_with_an_environment_can_be_evaluated_twice() -> None:
    with chat_server(lambda text, n: "open") as server:
        settings = EvaluationSettings(
            name="doors",
            model=EvaluatedModelSettings(name="any", url=server.url),
            source=(SourceSettings(environment=f"{__name__}:Door", tasks="sums.jsonl"),),
        )
        agent = Agent(environment=Door)
        source = EvaluatedSource(name="default", agent=agent, tasks=tuple(load_tasks("sums.jsonl")))
        for name in ("one", "two"):
            result = evaluate_sources(settings.model_copy(update={"name": name}), [source])
            assert (result.row.failed, result.row.stops) == (0, {"env_ended": 20})


def test_checkpoints_share_their_environments() -> None:
    Door.made = Door.closed = 0
    settings = EvaluationSettings(
        name="doors",
        model=EvaluatedModelSettings(name="tiny"),
        engine=EngineSettings(name=f"{__name__}:make_opener"),
        attempts=AttemptSettings(max_concurrent=2),
        checkpoint=tuple(EvaluatedCheckpoint(step=step, folder="tiny") for step in (0, 1, 2)),
        source=(SourceSettings(environment=f"{__name__}:Door", tasks="sums.jsonl"),),
    )
    tasks = tuple(load_tasks("sums.jsonl"))[:4]
    source = EvaluatedSource(name="default", agent=Agent(environment=Door), tasks=tasks)
    result = evaluate_sources(settings, [source])
    assert [rows[0].stops for rows in result.rows.values()] == [{"env_ended": 4}] * 3
    assert (Door.made, Door.closed) == (2, 2), "two chains at once need two doors, for all models"


def make_opener(spec: EngineSpec) -> ScriptedEngine:
    assert spec.tokenizer is not None
    return ScriptedEngine(lambda turn: "open", tokenizer=spec.tokenizer)


class Door:
    """An environment that is over when it is opened."""

    pooling = Pooling(max_uses=100)
    made = closed = 0

    def __init__(self) -> None:
        Door.made += 1

    async def reset(self, task: Task, seed: Seed) -> str:
        return "A door."

    async def step(self, action: str) -> Step:
        return Step(observation="It is open.", reward=1.0, done=True)

    async def close(self) -> None:
        Door.closed += 1


def test_most_chains_failing_ends_it_and_a_resume_tries_them_again() -> None:
    broken = True

    def answer(question: str, number: int) -> str | None:
        return None if broken else right(question, number)

    with chat_server(answer) as server:
        failed = evaluate(server, "--concurrent", "4")
        assert failed.exit_code == 2
        assert "chains failed for a reason outside the model (EngineError" in failed.output
        broken = False
        assert evaluate(server, "--resume").exit_code == 0
        assert (numbers()["all"]["reward"]["value"], numbers()["all"]["failed"]) == (1.0, 0)


def test_two_evaluations_are_compared_task_by_task() -> None:
    with chat_server(lambda text, n: "5" if "9" in text else right(text, n)) as other:
        assert evaluate(other, "--name", "good").exit_code == 0
    with chat_server(lambda text, n: "5") as other:
        assert evaluate(other, "--name", "bad").exit_code == 0
    done = agentfly("eval", "--compare", "bad", "good")
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "good earns 0.75 more than bad on the same 20 tasks" in said
    assert "a difference that chance does not explain" in said
    same = agentfly("eval", "--compare", "good", "good")
    assert "can't be distinguished" in " ".join(same.output.split())
    record_run(Path("runs/other"), evaluations={0: [scored("a", 1.0)]})
    refused = agentfly("eval", "--compare", "good", "other@0")
    assert (refused.exit_code, "no task in common" in refused.output) == (2, True)


def test_a_file_of_tasks_is_attempted_as_the_run_was_trained() -> None:
    config = 'name = "demo"\nmodel.name = "tiny"\nrollout.max_tokens = 48\n[[source]]\n'
    source = 'tasks = "trained.jsonl"\ntools = ["calculator"]\nreward = "numeric_match"\n'
    record_run(Path("runs/demo"), config=config + source)
    found = find_checkpoints("demo@0")
    chosen = sources_for(["demo@0", "sums.jsonl"], Parts(), found, trust=False)
    (table,) = chosen.tables
    assert (table.tasks, table.tools, table.reward) == (
        str(Path("sums.jsonl").absolute()),
        ("calculator",),
        "numeric_match",
    )
    assert chosen.as_trained
    assert chosen.settings is not None
    assert chosen.settings.rollout.max_tokens == 48
    other = sources_for(["demo@0", "sums.jsonl"], Parts(reward="exact_match"), found, trust=False)
    assert (other.as_trained, other.tables[0].tools) == (False, ())


OWN_REWARD = """
from agentfly import reward


@reward
def right(final_response: str, answer: str) -> bool:
    return answer in final_response
"""


def test_a_run_of_a_file_elsewhere_finds_its_tasks_and_modules_there(folder: Path) -> None:
    """As after `agentfly train project/sums.toml`, whose files are searched beside it."""
    project = folder / "project"
    project.mkdir()
    (folder / "sums.jsonl").rename(project / "held_out.jsonl")
    (project / "own_reward.py").write_text(OWN_REWARD)
    config = 'name = "demo"\nseed = 7\nmodel.name = "tiny"\n[[source]]\ntasks = "held_out.jsonl"\n'
    record_run(Path("runs/demo"), config=config + 'reward = "own_reward:right"\n')
    mark = {"v": 1, "kind": "run", "base": str(project)}
    Path("runs/demo/run.json").write_text(json.dumps(mark))
    found = find_checkpoints("demo@0")
    chosen = sources_for(["demo@0"], Parts(), found, trust=True)
    (source,) = chosen.read("held-out", None)
    assert (len(source.tasks), source.agent.reward.name) == (20, "right")  # type: ignore[union-attr]
    assert chosen.seed == 7, "held-out tasks are attempted by the seeds of the run"
    with pytest.raises(ConfigError, match="runs code that came with it"):
        sources_for(["demo@0"], Parts(), found, trust=False)


def test_a_run_is_evaluated_on_as_many_held_out_tasks_as_it_evaluated_itself() -> None:
    config = 'name = "demo"\nmodel.name = "tiny"\neval.max_tasks = 4\n[[source]]\n'
    source = 'tasks = "sums.jsonl"\neval_tasks = "sums.jsonl"\nreward = "numeric_match"\n'
    record_run(Path("runs/demo"), config=config + source)
    found = find_checkpoints("demo@0")
    chosen = sources_for(["demo@0"], Parts(), found, trust=False)
    sizes = {count: len(chosen.read("held-out", count)[0].tasks) for count in (None, 7)}
    assert sizes == {None: 4, 7: 7}
    assert len(chosen.read("training", None)[0].tasks) == 20
    file = sources_for(["demo@0", "sums.jsonl"], Parts(), found, trust=False)
    assert len(file.read("held-out", None)[0].tasks) == 20, "a file is attempted as a whole"
    Path("open.toml").write_text(config + source.replace("eval_tasks", "# eval_tasks"))
    others = sources_for(["tiny", "open.toml"], Parts(), None, trust=False)
    assert len(others.read("held-out", None)[0].tasks) == 20, "training tasks are not limited"


def test_training_tasks_are_found_and_said() -> None:
    rows = [json.dumps({"id": number, **row}) for number, row in enumerate(sums(5))]
    Path("trained.jsonl").write_text("\n".join(rows))
    config = 'name = "demo"\nmodel.name = "tiny"\n[[source]]\ntasks = "trained.jsonl"\n'
    run = record_run(Path("runs/demo"), config=config + 'reward = "numeric_match"\n')
    model = run / "checkpoints" / "step_4"
    model.mkdir(parents=True)
    done = agentfly("eval", str(model), "sums.jsonl", "--reward", "numeric_match")
    assert done.exit_code == 2, "there is no model in it"
    assert "5 of 20 tasks are training tasks of" in done.output
    assert RecordedRun(run).kind == "run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a model, then the tasks"),
        (["tiny"], "name the tasks for tiny"),
        (["tiny", "sums.json"], "there is no file and no environment 'sums.json'"),
        (["tiny", "sums.jsonl"], "name one with --reward"),
        (["tiny", "level=1"], "no source is before it"),
        (["tiny", "code", "--reward", "numeric_match"], "are for files of tasks"),
        (["http://127.0.0.1:9/v1", "sums.jsonl"], "does not list its models"),
        (["runs/none@best", "sums.jsonl"], "there is no run 'runs/none'"),
        (["--compare", "none", "none"], "there is no run 'none'"),
    ],
)
def test_mistakes_are_named_with_the_way_out(words: list[str], said: str) -> None:
    done = agentfly("eval", *words)
    assert (done.exit_code, said in " ".join(done.output.split())) == (2, True), done.output


def test_a_server_with_several_models_is_asked_for_one() -> None:
    with chat_server(models=("a", "b")) as server:
        refused = evaluate(server)
        assert "--server-model" in refused.output
        assert evaluate(server, "--server-model", "a").exit_code == 0
