"""The quick start's questions: right, apart from one another, and asked as the agent reads them."""

import re
from importlib.resources import files

from agentfly import Agent, ScriptedEngine
from agentfly.agents import Tags, resolve_run
from agentfly.chat import CHATML_TOKENS, ByteTokenizer
from agentfly.cli.quickstart.tasks import WORKED_EXAMPLE, Row, held_out, training
from agentfly.config import load_settings
from agentfly.engines import ScriptedTurn
from agentfly.rewards import numeric_match
from agentfly.tools import calculator
from agentfly.types import Task, ToolResult


def asked(row: Row) -> tuple[int, str, int]:
    found = re.fullmatch(r"What is (\d+)([-+*])(\d+)\?", row["messages"][-1]["content"])
    assert found is not None
    return int(found[1]), found[2], int(found[3])


def pairs(rows: list[Row]) -> list[frozenset[int]]:
    return [frozenset((a, b)) for a, _, b in map(asked, rows)]


def test_the_answers_are_right() -> None:
    for row in held_out() + training():
        a, operator, b = asked(row)
        assert row["answer"] == str({"+": a + b, "-": a - b, "*": a * b}[operator])


def test_no_two_numbers_are_asked_for_together_twice() -> None:
    everything = pairs(held_out() + training())
    assert len(set(everything)) == len(everything) == 576


def test_the_same_questions_come_every_time() -> None:
    assert (held_out(), training()) == (held_out(), training())
    assert len(held_out()) == 64


def test_nothing_is_asked_that_can_be_done_in_the_head() -> None:
    for a, operator, b in map(asked, held_out() + training()):
        assert a != b
        if operator == "*":
            assert a % 10
            assert b % 10
            assert min(a, b) > 12
        else:
            assert min(a, b) > 100


def test_both_splits_have_all_three_operators() -> None:
    for rows in (held_out(), training()):
        operators = [operator for _, operator, _ in map(asked, rows)]
        assert set(operators) == {"*", "+", "-"}
        assert 0.6 < operators.count("*") / len(operators) < 0.9


def test_the_worked_example_is_what_the_agent_itself_would_read_and_be_shown() -> None:
    kind = Tags()
    _, call, result, answer = (message["content"] for message in WORKED_EXAMPLE)
    read = kind.format([calculator.spec]).read(call)
    assert [(c.name, c.arguments) for c in read.calls] == [
        ("calculator", '{"expression": "12*34"}')
    ]
    observed = ToolResult(observation=calculator("12*34"))
    assert [message.content for message in kind.reply(read.calls, [observed])] == [result]
    assert not kind.format([calculator.spec]).read(answer).calls
    right = Task(id="example", messages=(), fields={"answer": "408"})
    assert numeric_match()(answer, right)


def test_calling_pays_and_guessing_does_not() -> None:
    def model(turn: ScriptedTurn) -> str:
        if turn.request.chain_id.endswith("/1"):
            return "The answer is 1000000."
        if turn.request.turn == 0:
            expression = re.findall(r"What is (.*?)\?", turn.prompt)[-1]
            return f"<calculator>{expression}</calculator>"
        result = re.findall(r"<information>(.*?)</information>", turn.prompt)[-1]
        return f"The answer is {result}."

    engine = ScriptedEngine(model, tokenizer=ByteTokenizer(CHATML_TOKENS))
    agent = Agent(engine, kind="tags", tools=[calculator], reward=numeric_match(), max_turns=3)
    for group in agent.run_sync(held_out()[:8], num_chains=2).groups:
        assert [member.reward for member in group.members] == [1.0, 0.0]
        assert [len(member.turns) for member in group.members] == [2, 1]


def test_every_name_in_the_settings_stands_for_something() -> None:
    text = files("agentfly.cli.quickstart").joinpath("settings.toml").read_text("utf-8")
    settings = load_settings(text)
    parts = resolve_run(settings)
    assert [tool.name for tool in parts.sources[0].agent.tools.specs] == ["calculator"]
    (source,) = settings.source
    assert (source.tasks, source.eval_tasks) == (
        "agentfly.cli.quickstart.tasks:training",
        "agentfly.cli.quickstart.tasks:held_out",
    )
