"""Chains on the terminal: a table of many, or one with its messages, results and reward."""

from collections.abc import Iterable

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentfly.observe.chain_filter import ChainRow
from agentfly.observe.chain_text import message_lines, readable
from agentfly.observe.console import STYLES
from agentfly.observe.token_view import Decode, Mask, TokenKind, TokenView, token_view
from agentfly.types import Trajectory, Turn
from agentfly.types.short_text import printable, shorten

MAX_ID = 40
"""Maximum number of characters of a chain's id in a table."""
KIND_STYLES = {
    TokenKind.CONTEXT: "dim",
    TokenKind.TRAINED: "bold green",
    TokenKind.MASKED: "yellow",
    TokenKind.SAMPLED: "cyan",
}
MARKS = {TokenKind.TRAINED: "+", TokenKind.MASKED: "-", TokenKind.SAMPLED: "?"}


def chain_table(rows: Iterable[ChainRow], *, numbered: str = "#") -> Table:
    """Return chains as a table, one line each; `numbered` is the name of their numbers."""
    shown = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in (numbered, "chain", "reward", "turns", "calls", "tokens", "stop"):
        texts = {"chain": [row.chain_id for row in shown], "stop": [str(row.stop) for row in shown]}
        width = max(map(len, texts.get(name, [])), default=0)
        width = max(len(name), min(width, MAX_ID))
        # Only the task is cut where the terminal is narrow.
        table.add_column(name, justify="left" if name in texts else "right", min_width=width)
    table.add_column("task", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in shown:
        table.add_row(
            str(row.number),
            Text(shorten(row.chain_id, MAX_ID)),
            "-" if row.reward is None else f"{row.reward:.2f}",
            *(str(number) for number in (row.turns, row.calls, row.tokens)),
            str(row.stop),
            Text(shorten(row.question, 60)),
        )
    return table


def show_chain(chain: Trajectory, console: Console, decode: Decode | None) -> None:
    """Print a chain turn by turn, then its reward and where its time went.

    Args:
        chain: The chain.
        console: Where it is printed.
        decode: From token ids to text; without it, or for turns without token ids, messages are
            printed instead of the prompt as it was rendered.
    """
    _heading(chain, console)
    if decode is None or not chain.turns or chain.turns[0].completion is None:
        _show_opening(chain, console)
    for turn in chain.turns:
        console.print(Text(f"\nturn {turn.index}", style="bold"))
        if decode is not None and turn.completion is not None:
            _paragraph(decode(turn.context_ids), "dim", console)
            said = decode(turn.completion.token_ids)
        else:
            said = turn.message.content
        if said:
            _paragraph(said, STYLES["assistant"], console)
        for call, result in turn.call_results:
            # A call that could not be read is there word for word already.
            repeated = call.problem is not None and call.arguments in said
            shown = "" if repeated else f"{call.name}({call.arguments})"
            outcome = "" if result.status == "ok" else f" [{result.status}]"
            line = f"{shown}{outcome} → {result.observation}".lstrip()
            _paragraph(line, STYLES["call" if result.status == "ok" else "failure"], console)
        if not turn.results:
            _show_answer(turn, console)
    _ending(chain, console)


def show_tokens(
    chain: Trajectory, console: Console, decode: Decode, mask: Mask | None, *, policy: str = ""
) -> None:
    """Print every token of a chain: context as text, each sampled one with its log-probability.

    Args:
        chain: The chain.
        console: Where it is printed.
        decode: From token ids to text.
        mask: The run's mask policy; None where it is code that is not to be run.
        policy: Name of that policy, for the legend.
    """
    _heading(chain, console)
    console.print(_legend(policy if mask is None else None), soft_wrap=True)
    for tokens in token_view(chain, decode, mask):
        turn, context = tokens.turn, tokens.context
        console.print(
            Text(
                f"\nturn {turn.index}: {len(context)} tokens of context, {len(tokens.sampled)} "
                f"sampled at temperature {turn.temperature:g}",
                style="bold",
            )
        )
        pieces = "│".join(_visible(token) for token in context)
        console.print(Text(pieces, style=KIND_STYLES[TokenKind.CONTEXT]), soft_wrap=True)
        for token in tokens.sampled:
            console.print(_token_line(token), soft_wrap=True)
    _ending(chain, console)


def _legend(not_run: str | None) -> Text:
    legend = Text("context, ", style=KIND_STYLES[TokenKind.CONTEXT])
    if not_run is not None:
        text = f"? sampled; the policy {printable(not_run)} decides, and is not run here"
        return legend.append(f"{text} (--trust runs it)", KIND_STYLES[TokenKind.SAMPLED])
    legend.append("+ sampled and trained", KIND_STYLES[TokenKind.TRAINED])
    return legend.append(", - sampled and masked off", KIND_STYLES[TokenKind.MASKED])


def _token_line(token: TokenView) -> Text:
    numbers = f"  {MARKS[token.kind]} {token.logprob:8.3f}  v{token.version:<4}{token.id:>7}  "
    return Text.assemble((numbers, "dim"), (_visible(token), KIND_STYLES[token.kind]))


def _visible(token: TokenView) -> str:
    shown = token.text.replace("\n", "↵").replace("\t", "⇥").replace(" ", "␣")
    return printable(shown)


def _heading(chain: Trajectory, console: Console) -> None:
    console.print(Text(printable(repr(chain)), style="bold"), soft_wrap=True)
    if chain.error is not None:
        _paragraph(chain.error, STYLES["failure"], console)


def _show_opening(chain: Trajectory, console: Console) -> None:
    for tool in chain.tools:
        _paragraph(f"tool {tool.name}: {tool.description}", STYLES["tool"], console)
    for message in chain.messages:
        for line in message_lines(message):
            _paragraph(f"{line.role}: {line.text}", STYLES[line.role], console)


def _show_answer(turn: Turn, console: Console) -> None:
    """Print the environment's answer to an action in text."""
    refused = "[impossible] " if turn.invalid else ""
    for reply in turn.replies:
        style = STYLES["failure" if turn.invalid else "env"]
        _paragraph(f"{refused}→ {reply.content}", style, console)


def _paragraph(text: str, style: str, console: Console) -> None:
    console.print(Text(readable(text, None), style=style), soft_wrap=True)


def _ending(chain: Trajectory, console: Console) -> None:
    console.print(Text(f"\nstop: {chain.stop}", style=STYLES["stop"]))
    if chain.score is None:
        console.print(Text("reward: unscored", style=STYLES["reward"]))
    else:
        parts = ", ".join(f"{name} {value:g}" for name, value in chain.score.parts.items())
        text = f"reward: {chain.score.value:g}" + (f" ({parts})" if parts else "")
        console.print(Text(printable(text), style=STYLES["reward"]), soft_wrap=True)
        if chain.score.per_turn is not None:
            values = ", ".join(f"{value:g}" for value in chain.score.per_turn)
            console.print(f"by turn: {values}", soft_wrap=True)
    for span in chain.spans:
        turn = "" if span.turn is None else f"  turn {span.turn}"
        named = "" if span.name == span.kind else f" {span.name}"
        line = f"{span.start:8.3f} s  {span.seconds:8.3f} s  {span.kind}{named}{turn}"
        console.print(Text(printable(line), style="dim"), soft_wrap=True)
