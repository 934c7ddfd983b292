import io

from rich.console import Console

from agentfly.observe import ConsolePrinter
from agentfly.types import (
    ChainStarted,
    EnvObserved,
    Event,
    Message,
    Observed,
    Rewarded,
    Score,
    Stopped,
    StopReason,
    TokenSampled,
    ToolCall,
    ToolCalled,
    ToolResult,
    TurnRead,
)


def shown(*events: Event, colors: bool = False) -> list[str]:
    file = io.StringIO()
    printer = ConsolePrinter(Console(file=file, force_terminal=colors, width=40))
    for event in events:
        printer(event)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def started(chain: str, *messages: Message) -> ChainStarted:
    return ChainStarted(chain_id=chain, turn=0, messages=messages)


def token(chain: str, text: str) -> TokenSampled:
    return TokenSampled(chain_id=chain, turn=0, token_id=0, logprob=0.0, text=text)


def read(chain: str, content: str) -> TurnRead:
    return TurnRead(chain_id=chain, turn=0, message=Message(role="assistant", content=content))


def test_a_chain_from_its_start_to_its_stop() -> None:
    call = ToolCall(id="1", name="add", arguments='{"a": 1}')
    result = ToolResult(observation="4\nexactly")
    assert shown(
        started(
            "t/0/0",
            Message(role="system", content="be brief"),
            Message(role="user", content="2+2?"),
        ),
        read("t/0/0", "I will add, and write a line that is longer than the console is wide"),
        ToolCalled(chain_id="t/0/0", turn=0, call=call),
        Observed(chain_id="t/0/0", turn=0, call=call, result=result),
        EnvObserved(chain_id="t/0/0", turn=0, observation="a door"),
        Rewarded(chain_id="t/0/0", turn=0, score=Score(value=0.5)),
        Stopped(chain_id="t/0/0", turn=0, stop=StopReason.ANSWERED, error=None),
        Stopped(chain_id="t/0/1", turn=0, stop=StopReason.ENV_CRASHED, error="EnvError: boom"),
    ) == [
        "t/0/0 │ system     be brief",
        "t/0/0 │ user       2+2?",
        "t/0/0 │ assistant  I will add, and write a line that is longer than the console is wide",
        't/0/0 │ call       add({"a": 1})',
        "t/0/0 │ tool       4",
        "t/0/0 │ tool       exactly",
        "t/0/0 │ env        a door",
        "t/0/0 │ reward     0.5",
        "t/0/0 │ stop       answered",
        "t/0/1 │ failure    env_crashed: EnvError: boom",
    ]


def test_a_chain_alone_shows_each_token_at_once() -> None:
    events: list[Event] = [started("t/0/0"), token("t/0/0", "I"), token("t/0/0", " think")]
    assert shown(*events) == ["t/0/0 │ assistant  I think"]
    events += [token("t/0/0", ":\n\nit"), token("t/0/0", " is 4\n"), read("t/0/0", "not shown")]
    assert shown(*events) == [
        "t/0/0 │ assistant  I think:",
        "t/0/0 │ assistant",
        "t/0/0 │ assistant  it is 4",
    ]


def test_several_chains_show_whole_lines() -> None:
    events: list[Event] = [started("a"), started("b")]
    events += [token("a", "one"), token("b", "two"), token("a", " and\nthree"), token("b", "!\n")]
    assert shown(*events) == ["a │ assistant  one and", "b │ assistant  two!"]
    events += [read("a", "not shown"), read("b", "not shown")]
    assert shown(*events)[2:] == ["a │ assistant  three"]


def test_a_second_chain_begins_on_a_line_of_its_own() -> None:
    assert shown(
        started("a"),
        token("a", "one"),
        started("b", Message(role="user", content="hi")),
        token("a", " two"),
        read("a", "not shown"),
    ) == ["a │ assistant  one", "b │ user       hi", "a │ assistant   two"]


def test_what_was_sampled_before_a_failure_is_shown() -> None:
    assert shown(
        started("a"),
        started("b"),
        token("a", "half a li"),
        Stopped(chain_id="a", turn=0, stop=StopReason.CANCELLED, error=None),
    ) == ["a │ assistant  half a li", "a │ stop       cancelled"]


def test_text_can_steer_neither_rich_nor_the_terminal() -> None:
    assert shown(read("a", "[bold]\x1b[2J\x07\ud800\tend")) == [
        "a │ assistant  [bold]\N{REPLACEMENT CHARACTER}[2J"
        "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}    end"
    ]


def test_roles_have_colors() -> None:
    [user] = shown(started("a", Message(role="user", content="hi")), colors=True)
    [assistant] = shown(read("a", "hi"), colors=True)
    assert "\x1b[36mhi" in user
    assert "\x1b[32mhi" in assistant
