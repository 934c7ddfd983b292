import pytest

from agentfly.observe import summarize
from agentfly.observe.summary import MAX_ERROR, ended_unscored
from agentfly.types import (
    Completion,
    FinishReason,
    Message,
    Score,
    Span,
    SpanKind,
    StopReason,
    Task,
    TokenStream,
    ToolCall,
    ToolResult,
    ToolStatus,
    Trajectory,
    Turn,
)


def turn(index: int, tokens: int, *statuses: ToolStatus, repaired: int = 0) -> Turn:
    completion = Completion(
        token_ids=(7,) * tokens,
        logprobs=(-1.0,) * tokens,
        versions=((0, tokens),),
        finish_reason=FinishReason.STOP,
    )
    calls = tuple(
        ToolCall(id=str(i), name="f", arguments="", repaired=i == 0 and repaired > 1)
        for i, _ in enumerate(statuses)
    )
    results = tuple(
        ToolResult(observation="", status=status, repaired=i == len(statuses) - 1 and repaired > 0)
        for i, status in enumerate(statuses)
    )
    return Turn(
        index=index,
        context_ids=(1,),
        completion=completion,
        message=Message(role="assistant", tool_calls=calls),
        temperature=1.0,
        results=results,
    )


def chain(
    index: int,
    *turns: Turn,
    stop: StopReason = StopReason.ANSWERED,
    reward: float | None = None,
    error: str | None = None,
    spans: tuple[Span, ...] = (),
) -> Trajectory:
    return Trajectory(
        task=Task(id="t", messages=()),
        group_id="t/0",
        chain_id=f"t/0/{index}",
        messages=(),
        streams=(TokenStream(turns=turns),) if turns else (),
        stop=stop,
        score=None if reward is None else Score(value=reward),
        error=error,
        spans=spans,
    )


def span(kind: SpanKind, start: float, end: float) -> Span:
    return Span(kind=kind, name="x", turn=0, start=start, end=end)


OK, UNKNOWN = ToolStatus.OK, ToolStatus.UNKNOWN_TOOL
CHAINS = [
    chain(
        0,
        turn(0, 10, OK, UNKNOWN, repaired=2),
        turn(1, 5),
        reward=1.0,
        spans=(span(SpanKind.TOOL, 1.0, 1.5), span(SpanKind.GENERATE, 0.0, 1.0)),
    ),
    chain(1, turn(0, 3, ToolStatus.MALFORMED, repaired=1), reward=0.25),
    chain(2, turn(0, 2, ToolStatus.ERROR), reward=0.25, stop=StopReason.TURN_LIMIT),
    chain(
        3,
        stop=StopReason.ENV_CRASHED,
        error="EnvError: stepping turn 0 raised KeyError: 'boom'",
        spans=(span(SpanKind.GENERATE, 0.0, 2.0),),
    ),
    chain(4, stop=StopReason.LEASE_TIMEOUT, error="LeaseTimeout: none was free"),
    chain(5, stop=StopReason.ENV_CRASHED, error="EnvError: gone"),
    chain(6, stop=StopReason.TIME_LIMIT, error="the chain ran for: 60 s"),
]


def test_counts_by_hand() -> None:
    summary = summarize(iter(CHAINS))
    assert (summary.chains, summary.scored) == (7, 3)
    assert summary.mean_reward == 0.5, "(1 + 0.25 + 0.25) / 3: failures are not zeros"
    assert summary.solved_share == 1 / 3
    assert summary.stops == {
        StopReason.ANSWERED: 2,
        StopReason.ENV_CRASHED: 2,
        StopReason.TURN_LIMIT: 1,
        StopReason.LEASE_TIMEOUT: 1,
        StopReason.TIME_LIMIT: 1,
    }
    assert summary.failures == {"EnvError": 2, "LeaseTimeout": 1, "time_limit": 1}
    assert next(iter(summary.failures)) == "EnvError", "the most frequent first"
    assert (summary.turns, summary.sampled_tokens) == (4, 20)
    assert summary.tool_calls == 4
    assert summary.invalid_share == 2 / 4, "unknown and malformed; an error is the tool's"
    assert summary.unknown_share == 1 / 4
    assert summary.repaired == 3, "one while it was read, one right before it ran, and one more"
    assert summary.seconds == {SpanKind.GENERATE: 3.0, SpanKind.TOOL: 0.5}


def test_the_table() -> None:
    assert str(summarize(CHAINS)).splitlines() == [
        "chains     7 (3 scored)",
        "reward     0.500 mean, 33.3% solved (without 4 chains that have no score)",
        "stops      answered 2, env_crashed 2, turn_limit 1, lease_timeout 1, time_limit 1",
        "failures   EnvError 2, LeaseTimeout 1, time_limit 1",
        "such as    EnvError: stepping turn 0 raised KeyError: 'boom'",
        "turns      4 (20 sampled tokens)",
        "tool calls 4 (50.0% invalid, 25.0% unknown, 3 repaired)",
        "seconds    generate 0.4, tool 0.1 (mean of a chain; chains run side by side)",
    ]


def test_nothing_has_no_mean() -> None:
    summary = summarize([])
    assert summary.mean_reward is None
    assert summary.solved_share is None
    assert summary.invalid_share is None
    assert summary.lines()[1] == "reward     -"


def test_chains_without_a_score_have_no_mean_either() -> None:
    unscored = chain(0, turn(0, 1))
    assert summarize([unscored]).lines()[1] == "reward     no chain has a score"
    one_left_out = summarize([unscored, chain(1, turn(0, 1), reward=0.0)]).lines()[1]
    assert one_left_out == "reward     0.000 mean, 0.0% solved (without 1 chain that has no score)"


def test_the_first_error_is_one_short_line() -> None:
    summary = summarize([chain(0, reward=1.0), *CHAINS[4:]])
    assert summary.first_error == "LeaseTimeout: none was free"
    long = chain(0, stop=StopReason.ENV_CRASHED, error="EnvError: a\nb" + "c" * 1000)
    (line,) = [line for line in summarize([long]).lines() if line.startswith("such as")]
    assert line.startswith("such as    EnvError: a bc")
    assert len(line) == len("such as    ") + MAX_ERROR


@pytest.mark.parametrize(
    ("one", "unscored"),
    [
        (chain(0, turn(0, 1)), True),
        (chain(0, turn(0, 1), stop=StopReason.TURN_LIMIT), True),
        (chain(0, turn(0, 1), reward=0.0), False),
        (chain(0, stop=StopReason.CONTEXT_LIMIT), False),
        (chain(0, turn(0, 1), stop=StopReason.TIME_LIMIT, error="late"), False),
        (chain(0, turn(0, 1), stop=StopReason.SURPLUS), False),
    ],
)
def test_only_a_chain_that_ended_well_is_unscored(one: Trajectory, unscored: bool) -> None:
    assert ended_unscored(one) == unscored


def test_a_turn_without_token_ids_counts_as_a_turn() -> None:
    message = Message(role="assistant", content="4")
    said = Turn(index=0, context_ids=(), completion=None, message=message, temperature=1.0)
    summary = summarize([chain(0, said, reward=1.0)])
    assert (summary.turns, summary.sampled_tokens) == (1, 0)
