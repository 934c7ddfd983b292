"""Chains on the terminal: what is shown of tokens, and that nothing of it is harmful."""

import io
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from tests.observe.finished_groups import chain, group, turn

from agentfly.chat import mask_policy
from agentfly.observe.chain_console import chain_table, show_chain, show_tokens
from agentfly.observe.chain_filter import ChainRow
from agentfly.observe.token_view import TokenKind, token_view
from agentfly.types import (
    Message,
    Span,
    SpanKind,
    StopReason,
    ToolCall,
    ToolResult,
    ToolSpec,
    ToolStatus,
    Trajectory,
)

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r[bold red]x[/]"
WORDS = {1: "<s>", 2: "What", 3: " is", 7: "42\n"}


def decode(ids: Sequence[int]) -> str:
    return "".join(WORDS[token] for token in ids)


def one(*, text: str = "said", stop: StopReason = StopReason.ANSWERED) -> Trajectory:
    spans = (Span(kind=SpanKind.TOOL, name="calculator", turn=0, start=1.0, end=1.5),)
    member = chain(
        0.75,
        turn(ToolStatus.UNKNOWN_TOOL, text=text, tokens=2),
        turn(index=1, text=text, tokens=1),
        parts={"format": 0.25},
        spans=spans,
        stop=stop,
    )
    tools = (ToolSpec(name="calculator", description="Calculates.", parameters={}),)
    return replace(group("6*7", [member]).members[0], tools=tools)


def printed(width: int = 200, *, color: bool = False) -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    system = "truecolor" if color else None
    return Console(file=file, width=width, force_terminal=color, color_system=system), file  # type: ignore[arg-type]


def test_kinds_follow_the_mask_and_context_has_no_log_probability() -> None:
    first, second = token_view(one(), decode, mask_policy("last_turn_only"))
    assert [token.kind for token in first.context] == [TokenKind.CONTEXT] * 3
    assert [token.text for token in first.context] == ["<s>", "What", " is"]
    assert {token.logprob for token in first.context} == {None}
    assert [token.kind for token in first.sampled] == [TokenKind.MASKED] * 2
    assert [token.kind for token in second.sampled] == [TokenKind.TRAINED]
    assert [(token.logprob, token.version) for token in second.sampled] == [(-1.0, 0)]


def test_each_sampled_token_has_a_mark_a_number_and_a_color() -> None:
    console, file = printed()
    show_tokens(one(), console, decode, mask_policy("last_turn_only"))
    text = file.getvalue()
    assert "<s>│What│␣is" in text
    assert "  -   -1.000  v0         7  42↵" in text
    assert "  +   -1.000  v0         7  42↵" in text
    console, file = printed(color=True)
    show_tokens(one(), console, decode, mask_policy("last_turn_only"))
    assert "\x1b[33m42↵\x1b[0m" in file.getvalue()
    assert "\x1b[1;32m42↵\x1b[0m" in file.getvalue()


def test_a_chain_is_shown_as_rendered_with_calls_rewards_and_times() -> None:
    console, file = printed()
    show_chain(one(), console, decode)
    text = file.getvalue()
    assert "<s>What is\n42\n42" in text
    assert 'calculator({"expression": "6*7"}) [unknown_tool] → 42' in text
    assert "reward: 0.75 (format 0.25)" in text
    assert "1.000 s     0.500 s  tool calculator  turn 0" in text
    assert "stop: answered" in text


def test_without_a_tokenizer_messages_and_tools_are_shown() -> None:
    console, file = printed()
    show_chain(one(), console, None)
    text = file.getvalue()
    assert "tool calculator: Calculates." in text
    assert "user: What is 6*7?" in text
    assert "said" in text


def test_control_characters_of_a_chain_do_not_reach_the_terminal() -> None:
    member = replace(one(text=EVIL), chain_id=f"6*7{EVIL}/0/0", error=None)
    console, file = printed()
    show_chain(member, console, None)
    show_chain(member, console, lambda ids: EVIL)
    show_tokens(member, console, lambda ids: EVIL, mask_policy("all_sampled"))
    console.print(chain_table([ChainRow.of(1, member, question=EVIL)]))
    console.print(str(member), markup=False)
    text = file.getvalue()
    assert "[bold red]x[/]" in text, "markup of a chain is text"
    assert not [c for c in text if not c.isprintable() and c != "\n"]


def test_a_narrow_table_cuts_the_task_and_not_the_stop_reason() -> None:
    member = replace(one(), stop=StopReason.TOOL_CALL_LIMIT)
    console, file = printed(width=80)
    console.print(chain_table([ChainRow.of(1, member, question="Buy a cola. " * 9)]))
    text = file.getvalue()
    assert "tool_call_limit  Buy a cola" in text
    assert "Buy a cola. " * 5 not in text


def test_a_call_that_could_not_be_read_is_shown_once() -> None:
    member = one()
    broken = ToolCall(id="1", name="", arguments='{"name": put', problem="no JSON")
    first = member.turns[0]
    message = Message(role="assistant", content="", tool_calls=(broken,))
    result = ToolResult(observation="could not be read", status=ToolStatus.MALFORMED)
    turns = (replace(first, message=message, results=(result,)), *member.turns[1:])
    member = replace(member, streams=(replace(member.streams[0], turns=turns),))
    console, file = printed()
    show_chain(member, console, lambda ids: '<tool_call>{"name": put')
    text = file.getvalue()
    assert "[malformed] → could not be read" in text
    assert '({"name": put)' not in text
    console, file = printed()
    show_chain(member, console, None)
    assert '({"name": put) [malformed] → could not be read' in file.getvalue()


def test_answers_to_actions_in_text_are_shown_and_impossible_ones_marked() -> None:
    said = ("Nothing happens.", "You open the drawer 1.")
    answers = [(Message(role="user", content=text),) for text in said]
    impossible = replace(turn(text="fly"), replies=answers[0], invalid=True)
    member = chain(1.0, impossible, replace(turn(index=1, text="open"), replies=answers[1]))
    console, file = printed()
    show_chain(member, console, None)
    lines = file.getvalue().splitlines()
    assert lines[lines.index("fly") + 1] == "[impossible] → Nothing happens."
    assert lines[lines.index("open") + 1] == "→ You open the drawer 1."
